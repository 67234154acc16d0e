"""Phrases of mail servers, grouped by the cause of a bounce that they state.

The texts are in lower case with single blanks, and every email address in them is replaced by the word `address`.
"""

_THING = (
    r"(?:(?:e-?mail |local |virtual |destination |final delivery |delivery )?"
    r"(?:user(?:-?id|-?name)?|recipient|mail ?box|address|addressee|account|alias|customer|subscriber|mail ?drop|inbox)"
    r"s?)"
)
_IS = r"(?:(?:is|are|was|were|has been|could|can|name|id|addresse?s?|here|either|this|seems to be) ){0,3}"
_NOT = r"(?:not |n't |cannot |can't )"

# The address does not exist. This counts with any code.
UNKNOWN_ADDRESS = (
    rf"unknown (?:or \w{{1,20}} )?{_THING}(?! error)|unknown local|(?:invalid|illegal) or unknown",
    rf"{_THING}[ :.]{{0,3}}{_IS}(?:unknown|not known|invalid|not valid)(?! (?:error|reason|sender))",
    rf"no such (?:\w{{1,12}} )?{_THING}|no such (?:local|person|email)|no valid recipients? for",
    r"no (?:mail ?box|user|account|alias|address|one)(?: \w{1,12})? (?:here|by that|with that|with this|at this|found)",
    r"no (?:mail ?box|account) (?:here|available|found)|there is no one at|no [^.;]{1,80} in name directory",
    rf"{_THING} {_IS}{_NOT}(?:be )?(?:found|present|listed|recogni[sz]ed|exist|defined|registered|located|identified)",
    rf"{_THING} [^.;]{{1,60}} (?:was|could) not (?:be )?found|not found (?:in|at) (?:\w{{1,12}} )?(?:ldap|director)",
    r"(?:address(?:es)?|recipient)[^.;]{0,60} (?:wasn't|(?:couldn't|could not) be) found|address_not_found",
    r"resolver\.adr\.\w{0,20} ?not ?found|recip(?:ient)?notfound|unable to find (?:alias|user|recipient|mailbox)",
    rf"(?:not|n't) an? (?:valid|known|active|local|registered|existing|deliverable) (?:\w{{1,12}} )?{_THING}",
    rf"not an? {_THING} (?:here|at|on|of|in)\b|isn't an? (?:user|mailbox)|not our customer|recipient is not local",
    r"is not an active address|not (?:listed )?in [^.;]{0,40}(?:director|address book)|not email addresses",
    r"destination addresses were unknown|e-?mail name is not found|name is not recogni[sz]ed",
    rf"(?:invalid|bad|illegal|incorrect|wrong|undefined|unrecogni[sz]ed|unregistered|malformed)[- _]{_THING}",
    r"no e-?mail address registered|non-?existent|(?:user|account)s? not exist|badly formatted address|malformed local",
    r"bad destination\b|invalid final delivery|not known (?:at|here|in|to)\b|not present in [^.;]{0,20}director",
    r"(?:does|do|did|dos)(?: not|n't|nt) exist|(?<!may )(?<!might )not exists?\b|user doesn't have",
    rf"(?:does|do)(?: not|n't) have an? (?:\S{{1,60}} )?(?:account|mail ?box)|no longer (?:an? )?(?:valid )?{_THING}",
    r"no longer (?:on|valid|exist|active|available|employed|works|in use|at this|accept|with us|with the)",
    r"bad ?rcpt ?to|badrecipientto|not in my validrcptto|user missing home directory|reserved by rfc 2606",
    rf"{_THING} (?:address )?(?:has |have )?moved[,.;:]? (?:to |the |its |his |her |their )*new (?:e-?mail )?address",
    r"moved[,.:]? (?:left )?no (?:forwarding )?address|is not a valid rfc[ -]?\d{1,4} address",
    r"recipient addresses in single label domains",
    rf"{_THING} (?:that )?you (?:\w{{1,10}} ){{1,3}}(?:to|reach|contact) (?:is|was) (?:unknown|invalid|not found)",
    # Words of programs: err.nosuchuser, USER_UNKNOWN, MailboxNotFound.
    r"\bno[-_.]?such[-_.]?(?:user|mailbox|recipient|account|address)\b",
    r"\b(?:user|recipient|mailbox|mbx|account|address|rcpt)[-_.]?(?:(?:does[-_.]?)?not[-_.]?(?:found|exist\w{0,3})"
    r"|unknown)\b",
    r"\b(?:unknown|invalid|nonexistent)[-_.]?(?:user|mailbox|recipient|account|rcpt)\b",
    r"null ?-?mx|indicated no smtp service|nxdomain",  # definite DNS responses, unlike "host not found"
    # German, French, Italian, Spanish and Portuguese.
    r"(?:empf[äa]e?nger|benutzer|adressat|nutzer|postfach|adresse|teilnehmer)\b[^.;]{0,60}(?:unbekannt|ung[üu]e?ltig)",
    r"unbekannte[rn]? (?:empf|benutz|adress|nutz)|existiert nicht|nicht gefunden|nicht vorhanden|nicht bekannt",
    r"(?:destinataire|utilisateur|adresse|bo[iî]te)\b[^.;]{0,60}(?:inconnu|introuvable|invalide|inexistant)",
    r"n'existe pas|non esiste|non (?:è stat[oa] )?trovat|nessun utente|inesistente|non sono riuscito a trovare",
    r"(?:utente|destinatario|destin\.|indirizzo|casella)[^.;]{0,60}(?:sconosciut|non valid|errat)",
    r"(?:usuario|destinatario|buz[oó]n|direcci[oó]n|cuenta|casilla)\b[^.;]{0,60}(?:desconocid|inv[aá]lid)",
    r"no existe|nadie con est|no (?:se ha |se |fue |ha sido )?encontr(?:ad|[oó]\b)|inexistente|n[aã]o existe",
    r"(?:usu[aá]rio|destinat[aá]rio|caixa|conta|endere[cç]o)\b[^.;]{0,60}(?:desconhecid|inv[aá]lid)",
    r"n[aã]o (?:foi |pode ser )?(?:encontrad|localizad)",
    # Slavic languages.
    r"nie istnieje|nie ma takiego|nieznany (?:u[żz]ytkownik|odbiorca|adres)|nie znaleziono",
    r"не существует|не найден|неизвестн\w{1,4} (?:пользовател|получател|адрес)|нет так(?:ого|ой) |не зарегистрирован",
    r"(?:адресат|получател|пользовател|абонент|отримувач|користувач|адрес[аоу]?)\w{0,3}\b[^.;]{0,40}(?:неизвест|невідом)",
    r"недействительный (?:адрес|получател)|не існує|не знайден|ne obstaja|ne postoji|ni bilo mogoče najti",
    r"neexistuje|nebyl[ao]? nalezen|nezn[aá]m[yý] (?:u[zž]ivatel|p[rř][ií]jemce)",
    # Other languages of Europe and its neighbours.
    r"bestaat niet|niet gevonden|onbekende? (?:gebruiker|ontvanger|adres)",
    r"(?:gebruiker|adres|ontvanger) [^.;]{0,40}onbekend|finns inte|hittades inte|ok[äa]nd (?:mottagare|anv)",
    r"finnes ikke|findes ikke|eksisterer ikke|ble ikke funnet|ukendt (?:modtager|bruger)|ukjent (?:mottaker|bruker)",
    r"ei l[öo]y(?:dy|tynyt)|ei ole olemassa|tuntematon vastaan|nem l[eé]tezik|nem tal[aá]lhat[oó]|nu exist[aă]",
    r"nu a fost g[aă]sit|bulunamad[ıi]|mevcut de[ğg]il|δεν υπάρχει|δεν βρέθηκε|غير موجود|לא נמצא|אינו קיים",
    # Languages of Asia.
    r"存在しません|存在しない|見つかりません|宛先(?:が)?不明|リストにありません|ユーザー?不明",
    r"不存在|找不到|无此|無此|查无|无效(?:的)?(?:收件人|用户|地址)|존재하지 않|찾을 수 없|없는 (?:사용자|계정|메일)",
    r"không tồn tại|không tìm thấy|tidak (?:ditemukan|dikenal)|ไม่พบ",
)

_REFUSED = (
    r"(?:(?:un|not |n't )(?:authori[sz]ed|permitted|allowed|approved|verified|accepted|trusted|recogni[sz]ed|valid)"
    r"|rejected|denied|blocked|refused|banned|black-? ?listed|prohibited|restricted|disallowed|forged|spoofed)"
)
# The sender, the recipient, and the words for "unknown" and "rejected" in other languages. Word order differs too much
# for phrases, so a clause counts that names the sender, rejects it, and neither names the recipient nor says that the
# message goes back to the sender.
_FOREIGN_SENDER = (
    r"(?:absender|versender|exp[eé]diteur|[eé]metteur|remitente|remetente|mittente|отправител[ьяи]|відправник|nadawc"
    r"|afzender|avs[äa]ndar|afsender|avsender|l[äa]hett[äa]j|odes[ií]latel|odosielate|felad[oó]|expeditor"
    r"|g[öo]nder[ei]"
    r"|αποστολέα|送信者|送信元|差出人|発信者|发件人|發件人|发送者|寄件|보낸 사람|보내는 사람|발신자"
    r"|người gửi|pengirim|ผู้ส่ง|مرسل|שולח)"
)
_FOREIGN_RECIPIENT = (
    r"(?:empf[äa]e?nger|adressat|benutzer|nutzer|teilnehmer|destinat|utilisateur|usuario|usu[aá]rio|utente|получател"
    r"|пользовател|отримувач|користувач|odbiorc|u[żz]ytkownik|ontvanger|gebruiker|mottag|modtag|mottaker|vastaanottaj"
    r"|p[rř][ií]jemc|pr[ií]jemc|c[ií]mzett|al[ıi]c[ıi]\b|παραλήπτ|宛先|受信者|受取人|ユーザ|收件|用户"
    r"|받는 사람|수신자|người nhận|penerima|recipient|user\b)"
)
# The message goes back to its sender.
_RETURNED = (
    r"(?:return|zur[üu]ck|retour|devuel|devol|возвращ|поверн|restitui|rispedi|zwr[oó]|terug|tillbaka|tilbage|tilbake|vrác"
    r"|iade|返送|退回|반송)"
)
_FOREIGN_REFUSED = (
    r"(?:existiert nicht|nicht (?:gefunden|vorhanden|bekannt|erlaubt|zugelassen|autorisiert|berechtigt)|unbekannt"
    r"|ung[üu]e?ltig|abgelehnt|gesperrt|blockiert|verweigert"
    r"|n'existe pas|inconnu|introuvable|invalid|inexist|refus|rejet|(?:non|pas) (?:autoris|valid|reconnu|trouv)|bloqu"
    r"|no existe|desconocid|inv[aá]lid|rechazad|no (?:est[aá] |fue |se )?(?:autorizad|permitid|v[aá]lid|encontr)"
    r"|n[aã]o (?:existe|(?:est[aá] |foi )?(?:autorizad|permitid|encontrad|localizad))|desconhecid|rejeitad|recusad"
    r"|не (?:существует|найден|зарегистрирован|разреш|авториз|допущен|існує|знайден)|неизвестн|недейств|отклон|отверг"
    r"|заблок|запрещ|невідом|відхилен"
    r"|non (?:è )?(?:esiste|(?:stat[oa] )?trovat|autorizzat|valid|riconosciut)|sconosciut|inesist"
    r"|rifiutat|respint|bloccat"
    r"|nie (?:istnieje|znaleziono|ma)|nieznan|odrzucon|zablokowan|nieautoryz|niedozwol"
    r"|bestaat niet|niet (?:gevonden|toegestaan|bekend)|onbekend|geweigerd|geblokkeerd"
    r"|finns inte|hittades inte|ok[äa]nd|(?:findes|finnes|eksisterer) ikke|ikke (?:funnet|fundet)|ukendt"
    r"|ukjent|avvis|afvist"
    r"|ei (?:ole|l[öo]y)|tuntemat|neexist|nezn[aá]m|nebyl|odm[ií]tnut|nem (?:l[eé]tezik|tal[aá]lhat)"
    r"|ismeretlen|elutas[ií]t"
    r"|nu (?:exist|a fost)|necunoscut|respins|mevcut de[ğg]il|bulunamad|bilinm|ge[çc]ersiz|reddedil"
    r"|δεν (?:υπάρχει|βρέθηκε)"
    r"|άγνωστ|απορρ|存在しま|存在しない|見つかり|不明|無効|拒否|不存在|找不到|无效|無效|拒绝|拒絕|未授权"
    r"|찾을 수 없|존재하지|거부"
    r"|không (?:tồn tại|tìm thấy|hợp lệ)|tidak (?:ditemukan|dikenal|diizinkan)|ditolak|ไม่พบ|غير موجود"
    r"|לא נמצא|אינו קיים)"
)
_CLAUSE = r"[^.,:;。、，]{0,200}"

# Explicit words about the sender or a limit. They outrank every code and the words about an address, which may be the
# sender's address: 550 5.1.1 unauthorized sender.
ABOUT_SENDER = (
    r"sender(?:'s)? (?:address )?(?:callout |callback )?(?:verif\w{1,8}|callout|callback)"
    r"|(?:verif\w{1,8}|callout)(?: verification)? (?:of|for) (?:the )?sender",
    r"(?:could not|couldn't|cannot|can't|unable to|failed to) verify (?:the |your )?(?:sender|from\b|return|envelope)",
    r"(?:could not|couldn't|cannot|can't|unable to|failed to) verify your\b(?! (?:message )?(?:recipient|addressee))"
    r"|author(?:'s)? (?:domain|address) (?:does|is|not)",
    r"(?:sender|from)(?: address)? (?:is )?not (?:listed )?in\b|mail from (?:the )?(?:outside|external)",
    r"your (?:e-?mail )?account (?:is|was|has been) (?:\w{1,12}ly )?(?:suspended|disabled|deactivated|inactive|locked)",
    r"sender (?:address )?(?:does not|doesn't|do not|did not) exist",
    r"sender(?:'s)? (?:(?:e-?mail )?(?:address|domain|mail ?box|account|host) )?(?:(?:is|was|could) )?"
    r"(?:unknown|invalid|not (?:be )?(?:found|known|valid)|(?:does not|doesn't) (?:exist|resolve))|no such sender",
    r"(?:mail from user|(?:from|(?:return|reverse)[- ]?path)(?: address)?) (?:is )?"
    r"(?:unknown|invalid|not found|(?:does not|doesn't) exist)(?! user)",
    r"(?:return|sending|originating|source) (?:e-?mail )?(?:address|user|account|mailbox|domain|host) "
    r"(?:(?:is|was|could) )?(?:unknown|invalid|not (?:be )?(?:found|known|valid|verified|registered|exist)"
    r"|(?:does not|doesn't) (?:exist|resolve))|reverse[- ]?path user (?:is )?unknown",
    r"(?:unknown|invalid|bad|unverified) (?:sending|originating|source|return) (?:address|user|account|mailbox|domain)",
    r"(?:unknown|invalid|bad) return[- ]?path|your (?:e-?mail )?address (?:is )?(?:not known|unknown|does not exist)",
    rf"originator (?:(?:is|was) )?(?:unknown|invalid|{_REFUSED})",
    rf"(?:^|[.,:;。、，])(?={_CLAUSE}{_FOREIGN_SENDER})(?={_CLAUSE}{_FOREIGN_REFUSED})"
    rf"(?!{_CLAUSE}{_FOREIGN_RECIPIENT})(?!{_CLAUSE}{_RETURNED})",
    rf"senders?(?:'s)? (?:(?:e-?mail |ip )?(?:address|domain|host|server|name|account) )?(?:address )?"
    rf"(?:(?:is|are|was|were|has been|have been) )?(?:currently )?{_REFUSED}",
    rf"{_REFUSED} (?:(?:e-?mail|envelope|mail) )?senders?\b",
    r"(?:unknown|invalid|bad|missing) (?:(?:envelope|mail) )?sender",
    rf"(?:your|the sending|the sender's) (?:(?:e-?mail|ip) )?(?:address|domain|account|server|host|ip)(?: address)? "
    rf"(?:(?:is|was|has been) )?(?:currently )?{_REFUSED}",
    r"(?:you|sender|senders) (?:are|is|do|does|were)? ?(?:not|n't) (?:have permission|have the rights?|allowed"
    r"|authori[sz]ed|permitted) to (?:send|e-?mail|mail|post|write|contact)",
    r"aren't (?:allowed|authori[sz]ed|permitted) to (?:send|e-?mail|mail|post|write|contact)",
    r"only accepts? (?:e-?mail|mail|messages?)s? from",
    r"(?:does not|doesn't|won't|not) accept (?:e-?mail|mail|messages?)s? from",
    r"mail from (?:command )?(?:rejected|denied|refused|not allowed|not accepted)",
    r"(?:too many|max(?:imum)?(?: number of)?) (?:\w{1,12} )?recipients",
)

# The domain has no mail server.
NO_MX = (
    r"no (?:valid |usable |)mx\b|(?:has|have) no mx|mx (?:records? |hosts? |entry )?(?:not found|does not exist)",
    r"(?:unable to|cannot|can't|could ?n[o']t|could not|failed to|did ?n[o']t) (?:find|locate) "
    r"(?:(?:an?|any|the|valid) ){0,2}(?:mx|mail exchanger)",
)

# The domain accepts no email, or the mailbox is closed. With a temporary code this may be an outage, and a temporary
# reason in the same text ("temporarily", "blocked") outranks it.
CLOSED = (
    r"(?:host|domain)(?: name|) ?(?:is |)(?:un|not )known|unknown (?:host|domain)|no such (?:domain|host)",
    r"(?:domain|host)(?: name|) (?:was |is |could |)not (?:be |)found|domain \S{1,253} (?:couldn't|could not) be found",
    r"(?:invalid|illegal|bad) (?:domain|host)|un-?route?able",
    *NO_MX,
    r"no (?:mail|address) exchanger|name or service not known|recipient domain must exist",
    r"does ?n[o']t (?:receive|accept) (?:any )?(?:e-?mail|mail)(?! from| over)|no (?:mail ?servers?|mail hosts?)\b",
    r"no dns entries|(?:unable to|cannot|can't|could not|couldn't) (?:resolve|find any host|find a mail ?server)",
    r"(?:weren't able to|unable to|could not|couldn't) find the (?:recipient )?(?:domain|host)|not a valid domain",
    r"domain (?:is not|isn't|not) (?:reachable|found|registered|hosted|valid|local|configured)",
    rf"{_THING} {_IS}(?:currently |permanently |administratively )?(?:disabled|deactivated|in-?active|not active)",
    rf"{_THING} {_IS}(?:closed|discontinued|terminated|cancell?ed|deleted|removed|expired|shut ?down|decommissioned)",
    rf"(?:disabled|deactivated|inactive|closed|expired|deleted|unavailable) {_THING}|disabled or discontinued",
    r"inactive on this|no matches to nameserver query|not specify a valid notes",
    rf"{_THING} [^.;]{{1,60}} (?:is|has been) (?:currently )?(?:disabled|deactivated|in-?active|deleted|closed)",
    rf"{_THING}(?: \S{{1,60}})?,? {_IS}(?:currently )?unavail?able|mail ?box rejected|can't accept user",
    r"due to inactivity|falta de uso|inaktiv|deaktiviert|d[eé]sactiv[eé]e?|disatt?t?ivat|desactivad|inactiv[oa]",
    r"inativ[oa]|nieaktywn|отключен|неактив|停用|已注销|(?:mail receiving|inbounds?) disabled",
)

# A temporary reason, or one about the sender, the message or the server. This counts with any code.
PASSING = (
    # The sender, its server or its reputation.
    r"black[ -]?list|block[ -]?list|deny[ -]?list|spamhaus|spamcop|\bsorbs\b|\bd?nsbl\b|\brbls?\b|barracudacentral",
    r"reputation|\bspam\b|spammer|(?<!for )(?<!for all )virus|malware|phish|unsolicited|junk ?mail|bulk ?mail",
    r"open relay|dynamic ip|malformed (?:or unexpected )?name ?server reply",
    r"(?:is|are|was|been|host|ip|address) (?:currently )?listed (?:in|on|by|at) |from sender|sender id\b",
    r"blocked (?:by|using|due|because|for|from)|(?:unavailable|found) or access denied",
    r"(?:ip|server|sender|message|mail|address|client|host|connection)s? (?:(?:has|have) been |is |was |are )?blocked",
    r"sender'?s? (?:address|domain|verif|reject|denied|unknown|is|was|not|host|ip|name)|of sender",
    r"your (?:ip|server|host) (?:\S{1,60} )?(?:is|has|was|does)\b|from (?:header|domain)|mail from (?:domain|address)",
    r"(?:after|in reply to|in response to) (?:the )?mail from|return(?:[- ]path)? address|backscatter|e2110|see <url:",
    r"\bspf\b|\bdkim\b|\bdmarc\b|reverse (?:dns|lookup)|\bptr\b|\brdns\b|\bhelo\b|\behlo\b",
    r"not authori[sz]ed|permission|not permitted|authentication required|pas autoris|recipient preferences",
    r"berechtig|permiso|permiss[aã]o|oprávn|uprawni|toestemming|дозвол|разрешени|权限|權限|権限|권한|مصرح",
    # Limits, queues and networks.
    r"rate ?-?limit|at a rate|too (?:quickly|fast|many)|throttl|gr[ea]y ?-?list|found, try again",
    r"try (?:again )?(?:later|in \d|after)|temporar(?!ily suspended: )|timed? ?-?out|deferred|no route to host",
    r"lost connection",
    r"connection (?:was )?(?:refused|reset|closed|dropped|failed)|network (?:is )?unreachable",
    r"(?:unable to|could not|couldn't) connect|too many hops|hop count|(?:mail|message|routing) ?-?loop|loops? back",
    # A full mailbox.
    r"(?:over|out of|above|under) ?-?(?:the |disk |its |their |allotted |storage |)?(?:quota|storage|space)",
    r"quota (?:is |has been )?(?:exceed|violation|full|used|reached|limit)|exhausted[^.;]{0,30}storage|mailbox limit",
    r"exceed\w*[^.;]{0,60}(?:quota|storage|limit|size)|(?:mailbox|storage|disk|space)[^.;]{0,20} (?:limit|exhausted)",
    r"(?:mail ?box|mail ?drop|inbox|folder|account|disk|user|store)(?:[^.;]{0,40} is| size| quota|) full",
    r"full mail ?box|insufficient (?:storage|disk|system|space)|not enough (?:storage|disk|space|room)|no space left",
    r"postfach (?:ist )?voll|zu ?viele mails|bo[iî]te[^.;]{0,30}pleine|casella[^.;]{0,30}piena",
    r"buz[oó]n[^.;]{0,30}llen[oa]|caixa[^.;]{0,30}cheia|переполнен|skrzynk[^.;]{0,30}pe[łl]n",
    r"一杯|容量|已满|已滿|空间不足|용량",
    # The message.
    r"too (?:large|big|long)|(?:message|mail) size|size limit|exceeds? (?:the )?(?:maximum|max)",
    # The server is not certain.
    r"(?:may|might) (?:not|no longer) (?:exist|be|have)|or (?:you )?(?:may|might) (?:not|be)",
)
# Words about the sender, the content, a limit or a policy, which may also occur by chance. They count, with any code,
# if no phrase above states the reason: a recipient who may be alive is not suppressed for them.
SUGGESTIVE = (
    r"quota|storage|insufficient|spam|block|polic(?:y|ies)|suspicious|prohibited|content|authenticat|relay access",
    r"relaying|unable to relay|not allowed|loop|protocol|syntax|sequence|attachment",
    r"\bfilter(?:ed|s|ing)?\b|encrypt|\btls\b",
    r"(?:white|allow|safe|accept)[ -]?list|only (?:accept|allow|receive|member|subscriber|contact|internal)\w*"
    r"|\bmembers?\b|member ?ship|must be (?:an? )?(?:subscriber|contact)|restrict|moderat|approv|forbid|disallow"
    r"|(?<!recipient address rejected: )access denied|security|domain of sender|\bsending\b|cannot find your"
    r"|your hostname",
    rf"(?:^|[.,:;。、，])(?={_CLAUSE}(?:senders?\b|{_FOREIGN_SENDER}))(?!{_CLAUSE}{_RETURNED})",
    # Content and policy.
    r"inhalt|contenu|contenido|conte[uú]do|contenut|содерж|содержи|innehåll|treść|içerik|内容|コンテンツ|콘텐츠"
    r"|richtlinie|politique|pol[ií]tica|политик|політик|polityk|beleid|politika|策略|ポリシー|정책"
    r"|спам|迷惑|スパム|垃圾|스팸|anh[aä]ng|pi[eè]ce jointe|adjunto|\banexo|allegat|вложени|załącznik|添付|附件",
    # Limits.
    r"kontingent|speicher|[üu]e?berschritten|d[ée]pass|exced|cuota|\bcota\b|esaurit|superat|квот|превы|перевищ"
    r"|przekrocz|overschred|överskrid|limite|límite|лимит|limit|超过|超過|超出|超え|制限|配额|초과",
    # Permission.
    r"intern(?:e[nr]?|es|os|as)? (?:absender|exp|rem|mitt)|zugriff verweigert|gesperrt|blockier|bloqu|bloccat|заблок"
    r"|запрещ|заборон|доступ|zablok|geblokkeerd|blockerad|ブロック|屏蔽|차단|拒收|受信拒否|受信を拒否|許可|允许|允許|拒絶|拒绝"
    r"|interdit|accès refusé|acceso denegado|acesso negado|accesso negato|prohibid|proibid|vietat|verboten",
)

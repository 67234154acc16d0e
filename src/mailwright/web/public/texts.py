"""Texts of the public pages in every language. A missing text is a type error."""

from collections.abc import Mapping

from mailwright.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The texts of one language. `{email}` is the masked address, `{list}` the name of a list."""

    name: str  # the name of the language in that language
    other_languages: str

    unsubscribe_title: str
    unsubscribe_list: str
    unsubscribe_general: str
    unsubscribe_button: str
    choose_instead: str

    test_title: str
    test_list: str
    test_general: str
    test_nothing_changed: str
    test_preferences: str

    unsubscribed_title: str
    unsubscribed_list: str
    unsubscribed_general: str
    unsubscribed_in_transit: str
    transactional_still_sent: str
    undo_question: str
    undo_button: str
    choose: str

    confirm_title: str
    confirm_list: str
    confirm_button: str
    confirmed_title: str
    confirmed_list: str
    confirmed_already: str

    resubscribe_title: str
    resubscribe_list: str
    resubscribe_general: str
    resubscribe_button: str

    resubscribed_title: str
    resubscribed_list: str
    resubscribed_general: str
    unsubscribe_again: str

    blocked_title: str
    blocked: str
    erasing_title: str
    erasing: str

    preferences_title: str
    preferences_for: str
    lists: str
    no_lists: str
    no_subscriptions: str
    language: str
    save: str
    snooze_title: str
    snooze_explained: str
    snoozed_until: str  # `{day}` is the day on which the pause ends
    snooze_week: str
    snooze_month: str
    snooze_quarter: str
    snooze_end: str
    snoozed_change: str
    snooze_ended_change: str
    unsubscribe_all_title: str
    unsubscribe_all_explained: str
    unsubscribe_all_button: str

    saved: str
    nothing_changed: str
    subscribed_change: str
    unsubscribed_change: str
    language_changed: str
    unsubscribed_all_change: str

    invalid_title: str
    invalid: str
    invalid_advice: str
    unavailable_title: str
    unavailable: str
    invisible_link_title: str
    invisible_link: str
    broken_link_title: str
    broken_link: str
    broken_link_advice: str
    link_unavailable: str
    tracking_title: str
    tracking_consent: str
    consent_given_change: str
    consent_withdrawn_change: str

    sign_up_title: str
    sign_up_list: str
    sign_up_email: str
    sign_up_double_opt_in: str
    sign_up_button: str
    sign_up_trap: str
    sign_up_invalid_email: str
    confirmation_sent_title: str
    confirmation_sent: str
    signed_up_title: str
    signed_up: str
    too_many_title: str
    too_many: str
    form_optional: str
    form_choose: str
    form_missing: str
    form_invalid: str
    form_not_a_number: str
    form_not_a_date: str
    form_consent_missing: str
    form_undeliverable: str
    form_step_title: str
    form_step: str
    form_step_button: str

    archive_title: str
    archive_empty: str
    archive_older: str
    archive_back: str
    archive_feed: str
    archive_subscribe: str
    not_found_title: str
    not_found: str


ENGLISH = Texts(
    name="English",
    other_languages="This page in other languages",
    unsubscribe_title="Unsubscribe?",
    unsubscribe_list="{email} will no longer receive emails from {list}.",
    unsubscribe_general="{email} will no longer receive our newsletters.",
    unsubscribe_button="Unsubscribe",
    choose_instead="Manage preferences instead",
    test_title="Link of a test email",
    test_list="In the real email, this link unsubscribes {email} from {list}.",
    test_general="In the real email, this link unsubscribes {email} from our newsletters.",
    test_nothing_changed="Nothing was changed. Tests still arrive.",
    test_preferences="This page shows what recipients see. Nothing is saved.",
    unsubscribed_title="You are unsubscribed",
    unsubscribed_list="{email} will no longer receive emails from {list}.",
    unsubscribed_general="{email} will no longer receive our newsletters.",
    unsubscribed_in_transit="An email that was already sent may still arrive.",
    transactional_still_sent="You will still receive emails about your account, such as receipts.",
    undo_question="Was this a mistake?",
    undo_button="Resubscribe",
    choose="Manage preferences",
    confirm_title="Confirm your subscription",
    confirm_list="Confirm that {email} should receive emails from {list}.",
    confirm_button="Confirm subscription",
    confirmed_title="You are subscribed",
    confirmed_list="{email} will receive emails from {list}.",
    confirmed_already="{email} already receives emails from {list}.",
    resubscribe_title="Resubscribe?",
    resubscribe_list="{email} will receive emails from {list} again.",
    resubscribe_general="{email} will receive our newsletters again.",
    resubscribe_button="Resubscribe",
    resubscribed_title="You are subscribed again",
    resubscribed_list="{email} will receive emails from {list} again.",
    resubscribed_general="{email} will receive our newsletters again.",
    unsubscribe_again="Unsubscribe again",
    blocked_title="We cannot send to this address",
    blocked=(
        "Emails to {email} bounced, were marked as spam, or were blocked by the sender. To receive our emails "
        "again, please write to us from this address."
    ),
    erasing_title="Your data is being erased",
    erasing=(
        "As requested, we no longer send to this address. We delete your data as soon as the last email that we sent "
        "to you has a result, usually within a day."
    ),
    preferences_title="Email preferences",
    preferences_for="For {email}",
    lists="Newsletters",
    no_lists="There are no newsletters to choose from.",
    no_subscriptions="You are unsubscribed from everything. To receive a newsletter again, select it and save.",
    language="Language",
    save="Save",
    snooze_title="Take a break",
    snooze_explained=(
        "Receive no newsletters for a while. You stay subscribed, and emails about your orders or account still arrive."
    ),
    snoozed_until="You receive no newsletters until {day}.",
    snooze_week="Pause for 1 week",
    snooze_month="Pause for 1 month",
    snooze_quarter="Pause for 3 months",
    snooze_end="End the pause",
    snoozed_change="No newsletters until {day}.",
    snooze_ended_change="The pause has ended. You receive newsletters again.",
    unsubscribe_all_title="Unsubscribe from everything",
    unsubscribe_all_explained=(
        "You will receive no more newsletters. You will still receive emails about your account, such as receipts."
    ),
    unsubscribe_all_button="Unsubscribe from all",
    saved="Preferences saved",
    nothing_changed="Nothing changed.",
    subscribed_change="You are subscribed to {list}.",
    unsubscribed_change="You are unsubscribed from {list}.",
    language_changed="Your language is now {language}.",
    unsubscribed_all_change="You are unsubscribed from everything.",
    invalid_title="This link is not valid",
    invalid="The link is incomplete or was changed. Nothing was changed.",
    invalid_advice="Please open the link in the email again, or reply to the email and ask us to unsubscribe you.",
    unavailable_title="Please try again in a minute",
    unavailable="We could not save your choice. Nothing was changed.",
    invisible_link_title="This link changes nothing",
    invisible_link="People do not see this link. It shows which programs follow every link of an email.",
    broken_link_title="This link does not work",
    broken_link="The link is incomplete, was changed, or has expired.",
    broken_link_advice="Please open the link in the email again.",
    link_unavailable="The page behind this link cannot be opened right now.",
    tracking_title="Opens and clicks",
    tracking_consent=(
        "You may record which of your emails I open and which links I click. I can withdraw this at any time."
    ),
    consent_given_change="Opens and clicks are recorded.",
    consent_withdrawn_change="Opens and clicks are no longer recorded.",
    sign_up_title="Subscribe",
    sign_up_list="Subscribe to emails from {list}.",
    sign_up_email="Email address",
    sign_up_double_opt_in="We will send you an email with a confirmation link.",
    sign_up_button="Subscribe",
    sign_up_trap="Leave this field empty",
    sign_up_invalid_email="Please enter a valid email address.",
    confirmation_sent_title="Check your inbox",
    confirmation_sent="We sent you an email. Open the link in it to subscribe to {list}.",
    signed_up_title="Thank you for subscribing",
    signed_up=(
        "You will receive emails from {list}. If you unsubscribed before, please confirm with the link in the "
        "email that we sent you."
    ),
    too_many_title="Please try again later",
    too_many="There were too many sign-ups from your network in the last hour. Nothing was changed.",
    form_optional="optional",
    form_choose="Choose…",
    form_missing="Fill in this field.",
    form_invalid="Check this value.",
    form_not_a_number="Enter a number, for example 42.",
    form_not_a_date="Enter a date, for example 2026-12-24.",
    form_consent_missing="Tick this box to subscribe.",
    form_undeliverable="This address cannot receive our emails. Check its spelling, and use a permanent address.",
    form_step_title="One more step",
    form_step="Press the button to subscribe to {list}. This keeps out programs that fill in forms.",
    form_step_button="Continue",
    archive_title="Archive",
    archive_empty="There are no emails here yet.",
    archive_older="Older emails",
    archive_back="All emails",
    archive_feed="Follow in a feed reader",
    archive_subscribe="Subscribe",
    not_found_title="Page not found",
    not_found="This page does not exist or is no longer public.",
)

RUSSIAN = Texts(
    name="Русский",
    other_languages="Эта страница на других языках",
    unsubscribe_title="Отписаться?",
    unsubscribe_list="Письма рассылки {list} больше не будут приходить на {email}.",
    unsubscribe_general="Наши рассылки больше не будут приходить на {email}.",
    unsubscribe_button="Отписаться",
    choose_instead="Настроить рассылки",
    test_title="Ссылка из тестового письма",
    test_list="В настоящем письме эта ссылка отписывает {email} от рассылки {list}.",
    test_general="В настоящем письме эта ссылка отписывает {email} от наших рассылок.",
    test_nothing_changed="Ничего не изменено. Тесты продолжат приходить.",
    test_preferences="Страница показывает то, что видят получатели. Ничего не сохраняется.",
    unsubscribed_title="Вы отписались",
    unsubscribed_list="Письма рассылки {list} больше не будут приходить на {email}.",
    unsubscribed_general="Наши рассылки больше не будут приходить на {email}.",
    unsubscribed_in_transit="Уже отправленное письмо ещё может прийти.",
    transactional_still_sent="Письма о вашем аккаунте, например чеки, по-прежнему будут приходить.",
    undo_question="Отписались случайно?",
    undo_button="Подписаться снова",
    choose="Настроить рассылки",
    confirm_title="Подтвердите подписку",
    confirm_list="Подтвердите, что хотите получать письма рассылки {list} на {email}.",
    confirm_button="Подтвердить подписку",
    confirmed_title="Вы подписаны",
    confirmed_list="Письма рассылки {list} будут приходить на {email}.",
    confirmed_already="Письма рассылки {list} уже приходят на {email}.",
    resubscribe_title="Подписаться снова?",
    resubscribe_list="Письма рассылки {list} снова будут приходить на {email}.",
    resubscribe_general="Наши рассылки снова будут приходить на {email}.",
    resubscribe_button="Подписаться снова",
    resubscribed_title="Вы снова подписаны",
    resubscribed_list="Письма рассылки {list} снова будут приходить на {email}.",
    resubscribed_general="Наши рассылки снова будут приходить на {email}.",
    unsubscribe_again="Всё-таки отписаться",
    blocked_title="Мы не можем отправлять письма на этот адрес",
    blocked=(
        "Письма на {email} не доставлялись, были отмечены как спам или заблокированы отправителем. Чтобы "
        "снова получать наши письма, напишите нам с этого адреса."
    ),
    erasing_title="Ваши данные удаляются",
    erasing=(
        "По запросу мы больше не отправляем письма на этот адрес. Мы удалим ваши данные, как только станет известен "
        "результат последнего отправленного вам письма, обычно в течение суток."
    ),
    preferences_title="Настройки рассылок",
    preferences_for="Для {email}",
    lists="Рассылки",
    no_lists="Сейчас нет доступных рассылок.",
    no_subscriptions="Вы отписаны от всех рассылок. Чтобы снова получать рассылку, отметьте её и сохраните.",
    language="Язык",
    save="Сохранить",
    snooze_title="Сделать паузу",
    snooze_explained=(
        "Не получать рассылки какое-то время. Подписка сохранится, а письма о заказах и учётной записи будут приходить."
    ),
    snoozed_until="Рассылки приостановлены до {day}.",
    snooze_week="Пауза на 1 неделю",
    snooze_month="Пауза на 1 месяц",
    snooze_quarter="Пауза на 3 месяца",
    snooze_end="Закончить паузу",
    snoozed_change="Рассылки приостановлены до {day}.",
    snooze_ended_change="Пауза закончена. Вы снова получаете рассылки.",
    unsubscribe_all_title="Отписаться от всех рассылок",
    unsubscribe_all_explained="Рассылки больше не будут приходить. Письма о вашем аккаунте, например чеки, останутся.",
    unsubscribe_all_button="Отписаться от всех",
    saved="Настройки сохранены",
    nothing_changed="Ничего не изменилось.",
    subscribed_change="Вы подписаны на {list}.",
    unsubscribed_change="Вы отписались от {list}.",
    language_changed="Ваш язык: {language}.",
    unsubscribed_all_change="Вы отписались от всех рассылок.",
    invalid_title="Ссылка недействительна",
    invalid="Ссылка неполная или была изменена. Ничего не изменилось.",
    invalid_advice="Откройте ссылку из письма ещё раз или ответьте на письмо и попросите отписать вас.",
    unavailable_title="Попробуйте ещё раз через минуту",
    unavailable="Не удалось сохранить ваш выбор. Ничего не изменилось.",
    invisible_link_title="Эта ссылка ничего не меняет",
    invisible_link="Люди не видят эту ссылку. По ней видно, какие программы открывают все ссылки письма.",
    broken_link_title="Ссылка не работает",
    broken_link="Ссылка неполная, была изменена, или срок её действия истёк.",
    broken_link_advice="Откройте ссылку из письма ещё раз.",
    link_unavailable="Страницу по этой ссылке сейчас нельзя открыть.",
    tracking_title="Открытия и переходы",
    tracking_consent=(
        "Можно записывать, какие ваши письма я открываю и по каким ссылкам перехожу."
        " Я могу отозвать это согласие в любое время."
    ),
    consent_given_change="Открытия и переходы записываются.",
    consent_withdrawn_change="Открытия и переходы больше не записываются.",
    sign_up_title="Подписка",
    sign_up_list="Подпишитесь на рассылку {list}.",
    sign_up_email="Адрес электронной почты",
    sign_up_double_opt_in="Мы отправим вам письмо со ссылкой для подтверждения.",
    sign_up_button="Подписаться",
    sign_up_trap="Оставьте это поле пустым",
    sign_up_invalid_email="Введите правильный адрес электронной почты.",
    confirmation_sent_title="Проверьте почту",
    confirmation_sent="Мы отправили вам письмо. Перейдите по ссылке в нём, чтобы подписаться на {list}.",
    signed_up_title="Спасибо за подписку",
    signed_up=(
        "Вы будете получать письма рассылки {list}. Если раньше вы отписывались, подтвердите подписку по "
        "ссылке в нашем письме."
    ),
    too_many_title="Попробуйте позже",
    too_many="За последний час из вашей сети было слишком много подписок. Ничего не изменилось.",
    form_optional="необязательно",
    form_choose="Выберите…",
    form_missing="Заполните это поле.",
    form_invalid="Проверьте это значение.",
    form_not_a_number="Введите число, например 42.",
    form_not_a_date="Введите дату, например 2026-12-24.",
    form_consent_missing="Чтобы подписаться, отметьте этот пункт.",
    form_undeliverable="На этот адрес наши письма не дойдут. Проверьте написание и укажите постоянный адрес.",
    form_step_title="Ещё один шаг",
    form_step="Нажмите кнопку, чтобы подписаться на {list}. Так мы защищаемся от программ, которые заполняют формы.",
    form_step_button="Продолжить",
    archive_title="Архив",
    archive_empty="Здесь пока нет писем.",
    archive_older="Более ранние письма",
    archive_back="Все письма",
    archive_feed="Читать в RSS-ридере",
    archive_subscribe="Подписаться",
    not_found_title="Страница не найдена",
    not_found="Такой страницы нет, или она больше не доступна.",
)

PORTUGUESE = Texts(
    name="Português",
    other_languages="Esta página em outros idiomas",
    unsubscribe_title="Cancelar a inscrição?",
    unsubscribe_list="{email} deixará de receber e-mails de {list}.",
    unsubscribe_general="{email} deixará de receber as nossas newsletters.",
    unsubscribe_button="Cancelar inscrição",
    choose_instead="Gerenciar preferências",
    test_title="Link de um e-mail de teste",
    test_list="No e-mail verdadeiro, este link cancela a inscrição de {email} em {list}.",
    test_general="No e-mail verdadeiro, este link cancela a inscrição de {email} nas nossas newsletters.",
    test_nothing_changed="Nada foi alterado. Os testes continuam a chegar.",
    test_preferences="Esta página mostra o que os destinatários veem. Nada é salvo.",
    unsubscribed_title="Inscrição cancelada",
    unsubscribed_list="{email} deixará de receber e-mails de {list}.",
    unsubscribed_general="{email} deixará de receber as nossas newsletters.",
    unsubscribed_in_transit="Um e-mail já enviado ainda pode chegar.",
    transactional_still_sent="Você continuará recebendo e-mails sobre a sua conta, como recibos.",
    undo_question="Foi engano?",
    undo_button="Reativar inscrição",
    choose="Gerenciar preferências",
    confirm_title="Confirme a sua inscrição",
    confirm_list="Confirme que {email} deve receber e-mails de {list}.",
    confirm_button="Confirmar inscrição",
    confirmed_title="Inscrição confirmada",
    confirmed_list="{email} receberá e-mails de {list}.",
    confirmed_already="{email} já recebe e-mails de {list}.",
    resubscribe_title="Reativar a inscrição?",
    resubscribe_list="{email} voltará a receber e-mails de {list}.",
    resubscribe_general="{email} voltará a receber as nossas newsletters.",
    resubscribe_button="Reativar inscrição",
    resubscribed_title="Inscrição reativada",
    resubscribed_list="{email} voltará a receber e-mails de {list}.",
    resubscribed_general="{email} voltará a receber as nossas newsletters.",
    unsubscribe_again="Cancelar novamente",
    blocked_title="Não podemos enviar e-mails para este endereço",
    blocked=(
        "Os e-mails para {email} foram devolvidos, marcados como spam ou bloqueados pelo remetente. Para "
        "voltar a receber os nossos e-mails, escreva para nós a partir deste endereço."
    ),
    erasing_title="Os seus dados estão a ser apagados",
    erasing=(
        "Conforme pedido, já não enviamos e-mails para este endereço. Apagamos os seus dados assim que o último e-mail "
        "que lhe enviámos tiver um resultado, normalmente no prazo de um dia."
    ),
    preferences_title="Preferências de e-mail",
    preferences_for="Para {email}",
    lists="Newsletters disponíveis",
    no_lists="Não há newsletters disponíveis no momento.",
    no_subscriptions="Você não está inscrito em nenhuma newsletter. Para voltar a receber uma, marque-a e salve.",
    language="Idioma",
    save="Salvar",
    snooze_title="Fazer uma pausa",
    snooze_explained=(
        "Não receber boletins por algum tempo. A inscrição continua, e e-mails sobre pedidos ou a conta ainda chegam."
    ),
    snoozed_until="Você não recebe boletins até {day}.",
    snooze_week="Pausar por 1 semana",
    snooze_month="Pausar por 1 mês",
    snooze_quarter="Pausar por 3 meses",
    snooze_end="Encerrar a pausa",
    snoozed_change="Sem boletins até {day}.",
    snooze_ended_change="A pausa terminou. Você recebe boletins novamente.",
    unsubscribe_all_title="Cancelar todas as inscrições",
    unsubscribe_all_explained=(
        "Você deixará de receber newsletters. E-mails sobre a sua conta, como recibos, continuarão a chegar."
    ),
    unsubscribe_all_button="Cancelar todas",
    saved="Preferências salvas",
    nothing_changed="Nada foi alterado.",
    subscribed_change="Você está inscrito em {list}.",
    unsubscribed_change="Inscrição em {list} cancelada.",
    language_changed="O seu idioma agora é {language}.",
    unsubscribed_all_change="Todas as suas inscrições foram canceladas.",
    invalid_title="Este link não é válido",
    invalid="O link está incompleto ou foi alterado. Nada foi alterado.",
    invalid_advice="Abra novamente o link do e-mail ou responda ao e-mail pedindo o cancelamento.",
    unavailable_title="Tente novamente em um minuto",
    unavailable="Não foi possível salvar a sua escolha. Nada foi alterado.",
    invisible_link_title="Este link não altera nada",
    invisible_link="As pessoas não veem este link. Ele mostra quais programas abrem todos os links de um e-mail.",
    broken_link_title="Este link não funciona",
    broken_link="O link está incompleto, foi alterado ou expirou.",
    broken_link_advice="Abra novamente o link do e-mail.",
    link_unavailable="A página deste link não pode ser aberta agora.",
    tracking_title="Aberturas e cliques",
    tracking_consent=(
        "Vocês podem registrar quais dos seus e-mails eu abro e em quais links eu clico."
        " Posso retirar este consentimento a qualquer momento."
    ),
    consent_given_change="As aberturas e os cliques são registrados.",
    consent_withdrawn_change="As aberturas e os cliques não são mais registrados.",
    sign_up_title="Inscreva-se",
    sign_up_list="Inscreva-se para receber e-mails de {list}.",
    sign_up_email="Endereço de e-mail",
    sign_up_double_opt_in="Enviaremos um e-mail com um link de confirmação.",
    sign_up_button="Inscrever-se",
    sign_up_trap="Deixe este campo vazio",
    sign_up_invalid_email="Digite um endereço de e-mail válido.",
    confirmation_sent_title="Confira a sua caixa de entrada",
    confirmation_sent="Enviamos um e-mail para você. Abra o link para se inscrever em {list}.",
    signed_up_title="Obrigado por se inscrever",
    signed_up=(
        "Você receberá e-mails de {list}. Se já cancelou a inscrição antes, confirme pelo link do e-mail que enviamos."
    ),
    too_many_title="Tente novamente mais tarde",
    too_many="Houve inscrições demais a partir da sua rede na última hora. Nada foi alterado.",
    form_optional="opcional",
    form_choose="Escolha…",
    form_missing="Preencha este campo.",
    form_invalid="Verifique este valor.",
    form_not_a_number="Digite um número, por exemplo 42.",
    form_not_a_date="Digite uma data, por exemplo 2026-12-24.",
    form_consent_missing="Marque esta opção para se inscrever.",
    form_undeliverable="Este endereço não recebe nossos e-mails. Verifique a grafia e use um endereço permanente.",
    form_step_title="Mais um passo",
    form_step="Clique no botão para se inscrever em {list}. Isso evita programas que preenchem formulários.",
    form_step_button="Continuar",
    archive_title="Arquivo",
    archive_empty="Ainda não há e-mails aqui.",
    archive_older="E-mails mais antigos",
    archive_back="Todos os e-mails",
    archive_feed="Acompanhar em um leitor de feeds",
    archive_subscribe="Inscrever-se",
    not_found_title="Página não encontrada",
    not_found="Esta página não existe ou já não é pública.",
)

# If none of the visitor's languages is available, the first language is used.
LANGUAGES: Mapping[str, Texts] = {"en": ENGLISH, "ru": RUSSIAN, "pt": PORTUGUESE}

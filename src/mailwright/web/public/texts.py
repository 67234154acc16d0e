"""What the pages say, in every language that they speak. A text that is missing in one of them is a type error."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """`{email}` is the recipient's masked address and `{list}` the name of a list, wherever they stand."""

    name: str  # of the language, in itself
    other_languages: str

    leave_title: str
    leave_list: str
    leave_general: str
    leave_button: str
    choose_instead: str

    left_title: str
    left_list: str
    left_general: str
    left_on_its_way: str
    left_still_arrives: str
    undo_question: str
    undo_button: str
    choose: str

    confirm_title: str
    confirm_list: str
    confirm_button: str
    confirmed_title: str
    confirmed_list: str
    confirmed_already: str

    return_title: str
    return_list: str
    return_general: str
    return_button: str

    returned_title: str
    returned_list: str
    returned_general: str
    leave_again: str

    blocked_title: str
    blocked: str

    preferences_title: str
    preferences_for: str
    lists: str
    no_lists: str
    everything_is_left: str
    language: str
    save: str
    everything_title: str
    everything_explained: str
    everything_button: str

    saved: str
    nothing_changed: str
    joined: str
    left: str
    language_changed: str
    everything_left: str

    invalid_title: str
    invalid: str
    invalid_advice: str
    unavailable_title: str
    unavailable: str

    sign_up_title: str
    sign_up_list: str
    sign_up_email: str
    sign_up_asks: str
    sign_up_button: str
    sign_up_trap: str
    sign_up_no_address: str
    asked_title: str
    asked: str
    signed_up_title: str
    signed_up: str
    too_many_title: str
    too_many: str

    archive_title: str
    archive_empty: str
    archive_older: str
    archive_back: str
    archive_feed: str
    archive_join: str
    absent_title: str
    absent: str


ENGLISH = Texts(
    name="English",
    other_languages="This page in other languages",
    leave_title="Unsubscribe?",
    leave_list="{email} will get no more mail from {list}.",
    leave_general="{email} will get no more newsletters from us.",
    leave_button="Unsubscribe",
    choose_instead="Choose what you receive instead",
    left_title="You are unsubscribed",
    left_list="{email} gets no more mail from {list}.",
    left_general="{email} gets no more newsletters from us.",
    left_on_its_way="A mail that has already left may still arrive.",
    left_still_arrives="Mail about your own account, such as receipts, still reaches you.",
    undo_question="Was that a mistake?",
    undo_button="Subscribe me again",
    choose="Choose what you receive",
    confirm_title="Confirm your subscription",
    confirm_list="{email} will get mail from {list} once you agree.",
    confirm_button="Yes, send it to me",
    confirmed_title="You are subscribed",
    confirmed_list="{email} gets mail from {list} from now on.",
    confirmed_already="{email} already gets mail from {list}.",
    return_title="Subscribe again?",
    return_list="{email} will get mail from {list} again.",
    return_general="{email} will get our newsletters again.",
    return_button="Subscribe me again",
    returned_title="You are subscribed again",
    returned_list="{email} gets mail from {list} again, as before.",
    returned_general="{email} gets our newsletters again, as before.",
    leave_again="Unsubscribe after all",
    blocked_title="We do not write to this address",
    blocked=(
        "Mail to {email} came back to us, was marked as spam, or was stopped by the sender. "
        "If you would like to hear from us again, please write to us from this address."
    ),
    preferences_title="What would you like to receive?",
    preferences_for="For {email}",
    lists="Lists",
    no_lists="There are no lists to choose from at the moment.",
    everything_is_left="You have left everything. To receive a list again, tick it and save.",
    language="Language",
    save="Save",
    everything_title="No newsletters at all",
    everything_explained=(
        "You leave every list at once. Mail about your own account, such as receipts, still reaches you."
    ),
    everything_button="Leave everything",
    saved="Saved",
    nothing_changed="Everything stays as it was.",
    joined="You are on {list}.",
    left="You have left {list}.",
    language_changed="Your language is now {language}.",
    everything_left="You have left everything.",
    invalid_title="This link does not work",
    invalid="It was cut off or changed on its way here, so we cannot tell who you are. Nothing was changed.",
    invalid_advice="Please open the mail again and follow the link in it, or answer the mail and ask us to stop.",
    unavailable_title="Please try again in a minute",
    unavailable="Your choice could not be stored just now. Nothing was changed.",
    sign_up_title="Subscribe",
    sign_up_list="You will get mail from {list}.",
    sign_up_email="Your email address",
    sign_up_asks="First we send you a mail with a link. Nothing else comes before you follow it.",
    sign_up_button="Subscribe",
    sign_up_trap="Please leave this field empty",
    sign_up_no_address="This does not look like an email address. Please check it.",
    asked_title="Please look into your mailbox",
    asked="We have sent you a mail with a link. Once you follow it, you get mail from {list}.",
    signed_up_title="Thank you",
    signed_up=(
        "You get mail from {list} from now on. If you had unsubscribed before, please follow the link in the mail that "
        "we have sent you."
    ),
    too_many_title="Please try again later",
    too_many="Too many subscriptions have come from your network within an hour. Nothing was changed.",
    archive_title="Archive",
    archive_empty="There is nothing to read here yet.",
    archive_older="Older mails",
    archive_back="All mails",
    archive_feed="Follow with a feed recipient",
    archive_join="Subscribe",
    absent_title="There is nothing here",
    absent="This page does not exist, or it is no longer open to everyone.",
)

RUSSIAN = Texts(
    name="Русский",
    other_languages="Эта страница на других языках",
    leave_title="Отписаться?",
    leave_list="На адрес {email} больше не будут приходить письма рассылки {list}.",
    leave_general="На адрес {email} больше не будут приходить наши рассылки.",
    leave_button="Отписаться",
    choose_instead="Выбрать, какие письма получать",
    left_title="Вы отписались",
    left_list="На адрес {email} больше не приходят письма рассылки {list}.",
    left_general="На адрес {email} больше не приходят наши рассылки.",
    left_on_its_way="Письмо, которое уже отправлено, ещё может прийти.",
    left_still_arrives="Письма о ваших собственных делах, например чеки, по-прежнему приходят.",
    undo_question="Это вышло случайно?",
    undo_button="Подписаться снова",
    choose="Выбрать, какие письма получать",
    confirm_title="Подтвердите подписку",
    confirm_list="{email} будет получать письма рассылки {list}, когда вы согласитесь.",
    confirm_button="Да, присылайте",
    confirmed_title="Вы подписаны",
    confirmed_list="{email} теперь получает письма рассылки {list}.",
    confirmed_already="{email} уже получает письма рассылки {list}.",
    return_title="Подписаться снова?",
    return_list="На адрес {email} снова будут приходить письма рассылки {list}.",
    return_general="На адрес {email} снова будут приходить наши рассылки.",
    return_button="Подписаться снова",
    returned_title="Вы снова подписаны",
    returned_list="На адрес {email} снова, как и прежде, приходят письма рассылки {list}.",
    returned_general="На адрес {email} снова, как и прежде, приходят наши рассылки.",
    leave_again="Всё-таки отписаться",
    blocked_title="Мы не пишем на этот адрес",
    blocked=(
        "Письма на адрес {email} возвращались к нам, были отмечены как спам или остановлены отправителем. "
        "Если вы хотите снова получать наши письма, напишите нам с этого адреса."
    ),
    preferences_title="Какие письма вы хотите получать?",
    preferences_for="Для адреса {email}",
    lists="Рассылки",
    no_lists="Сейчас нет рассылок, из которых можно выбрать.",
    everything_is_left="Вы отписались от всего. Чтобы снова получать рассылку, отметьте её и сохраните.",
    language="Язык",
    save="Сохранить",
    everything_title="Никаких рассылок",
    everything_explained=(
        "Вы отписываетесь от всех рассылок сразу. Письма о ваших собственных делах, например чеки, "
        "по-прежнему приходят."
    ),
    everything_button="Отписаться от всего",
    saved="Сохранено",
    nothing_changed="Всё осталось как было.",
    joined="Вы подписаны на {list}.",
    left="Вы отписались от {list}.",
    language_changed="Ваш язык теперь: {language}.",
    everything_left="Вы отписались от всего.",
    invalid_title="Эта ссылка не работает",
    invalid="По дороге она была обрезана или изменена, и мы не можем узнать, кто вы. Ничего не изменилось.",
    invalid_advice=(
        "Откройте письмо ещё раз и перейдите по ссылке в нём или ответьте на письмо и попросите больше не писать."
    ),
    unavailable_title="Попробуйте ещё раз через минуту",
    unavailable="Сейчас не удалось сохранить ваш выбор. Ничего не изменилось.",
    sign_up_title="Подписаться",
    sign_up_list="Вы будете получать письма рассылки {list}.",
    sign_up_email="Ваш адрес электронной почты",
    sign_up_asks="Сначала мы пришлём вам письмо со ссылкой. Пока вы не перейдёте по ней, других писем не будет.",
    sign_up_button="Подписаться",
    sign_up_trap="Пожалуйста, оставьте это поле пустым",
    sign_up_no_address="Это не похоже на адрес электронной почты. Пожалуйста, проверьте его.",
    asked_title="Пожалуйста, проверьте почту",
    asked="Мы отправили вам письмо со ссылкой. Перейдите по ней, и вы начнёте получать письма рассылки {list}.",
    signed_up_title="Спасибо",
    signed_up=(
        "Теперь вы получаете письма рассылки {list}. Если раньше вы отписывались, перейдите, пожалуйста, по ссылке из "
        "письма, которое мы вам отправили."
    ),
    too_many_title="Пожалуйста, попробуйте позже",
    too_many="За час из вашей сети пришло слишком много подписок. Ничего не изменилось.",
    archive_title="Архив",
    archive_empty="Здесь пока нечего читать.",
    archive_older="Более ранние письма",
    archive_back="Все письма",
    archive_feed="Читать через ленту новостей",
    archive_join="Подписаться",
    absent_title="Здесь ничего нет",
    absent="Такой страницы не существует, или она больше не открыта для всех.",
)

PORTUGUESE = Texts(
    name="Português",
    other_languages="Esta página em outros idiomas",
    leave_title="Cancelar a inscrição?",
    leave_list="{email} não receberá mais mensagens de {list}.",
    leave_general="{email} não receberá mais os nossos boletins.",
    leave_button="Cancelar a inscrição",
    choose_instead="Em vez disso, escolher o que receber",
    left_title="A sua inscrição foi cancelada",
    left_list="{email} não recebe mais mensagens de {list}.",
    left_general="{email} não recebe mais os nossos boletins.",
    left_on_its_way="Uma mensagem que já saiu ainda pode chegar.",
    left_still_arrives="Mensagens sobre a sua própria conta, como recibos, continuam a chegar.",
    undo_question="Foi um engano?",
    undo_button="Inscrever-me de novo",
    choose="Escolher o que receber",
    confirm_title="Confirme a sua inscrição",
    confirm_list="{email} receberá mensagens de {list} quando você concordar.",
    confirm_button="Sim, quero receber",
    confirmed_title="Inscrição confirmada",
    confirmed_list="{email} recebe mensagens de {list} a partir de agora.",
    confirmed_already="{email} já recebe mensagens de {list}.",
    return_title="Inscrever-se de novo?",
    return_list="{email} voltará a receber mensagens de {list}.",
    return_general="{email} voltará a receber os nossos boletins.",
    return_button="Inscrever-me de novo",
    returned_title="A sua inscrição está ativa de novo",
    returned_list="{email} volta a receber mensagens de {list}, como antes.",
    returned_general="{email} volta a receber os nossos boletins, como antes.",
    leave_again="Cancelar mesmo assim",
    blocked_title="Não escrevemos para este endereço",
    blocked=(
        "As mensagens para {email} voltaram para nós, foram marcadas como spam ou foram interrompidas pelo remetente. "
        "Se quiser voltar a receber as nossas mensagens, escreva para nós a partir deste endereço."
    ),
    preferences_title="O que gostaria de receber?",
    preferences_for="Para {email}",
    lists="Listas",
    no_lists="No momento não há listas para escolher.",
    everything_is_left="A sua inscrição em tudo foi cancelada. Para voltar a receber uma lista, marque-a e salve.",
    language="Idioma",
    save="Salvar",
    everything_title="Nenhum boletim",
    everything_explained=(
        "Cancela todas as listas de uma vez. Mensagens sobre a sua própria conta, como recibos, continuam a chegar."
    ),
    everything_button="Cancelar tudo",
    saved="Salvo",
    nothing_changed="Tudo continua como estava.",
    joined="A sua inscrição em {list} está ativa.",
    left="A sua inscrição em {list} foi cancelada.",
    language_changed="O seu idioma agora é {language}.",
    everything_left="Todas as suas inscrições foram canceladas.",
    invalid_title="Este link não funciona",
    invalid="Ele foi cortado ou alterado no caminho, e não sabemos quem você é. Nada foi alterado.",
    invalid_advice="Abra a mensagem de novo e siga o link que está nela, ou responda pedindo que deixemos de escrever.",
    unavailable_title="Tente de novo daqui a um minuto",
    unavailable="Não foi possível guardar a sua escolha agora. Nada foi alterado.",
    sign_up_title="Inscrever-se",
    sign_up_list="Você receberá mensagens de {list}.",
    sign_up_email="O seu endereço de e-mail",
    sign_up_asks="Primeiro enviamos uma mensagem com um link. Antes de você abri-lo, não enviamos mais nada.",
    sign_up_button="Inscrever-me",
    sign_up_trap="Deixe este campo vazio, por favor",
    sign_up_no_address="Isto não parece um endereço de e-mail. Verifique-o, por favor.",
    asked_title="Veja a sua caixa de entrada",
    asked="Enviamos uma mensagem com um link. Depois de abri-lo, você recebe mensagens de {list}.",
    signed_up_title="Obrigado",
    signed_up=(
        "A partir de agora você recebe mensagens de {list}. Se tinha cancelado a inscrição antes, abra o link da "
        "mensagem que enviamos."
    ),
    too_many_title="Tente de novo mais tarde",
    too_many="Vieram inscrições demais da sua rede em uma hora. Nada foi alterado.",
    archive_title="Arquivo",
    archive_empty="Ainda não há nada para ler aqui.",
    archive_older="Mensagens mais antigas",
    archive_back="Todas as mensagens",
    archive_feed="Acompanhar com um leitor de feeds",
    archive_join="Inscrever-se",
    absent_title="Não há nada aqui",
    absent="Esta página não existe ou já não está aberta a todos.",
)

# The first one is supported_language where a recipient's own is not among them.
LANGUAGES: Mapping[str, Texts] = {"en": ENGLISH, "ru": RUSSIAN, "pt": PORTUGUESE}

"""`mailwright message send`, which reads files. The other commands are derived from the actions."""

from mailwright.actions.messages import noun
from mailwright.cli.derived import make_group
from mailwright.cli.message_send import send_command

app = make_group(noun)
app.command("send")(send_command)

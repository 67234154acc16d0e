"""The model of a suppression, apart from contacts, whose models take a quarter of a second to import."""

from mailwright.schemas.base import ResponseModel, Time


class SuppressionResponse(ResponseModel):
    """`listKey`: the scope. `*` is all messages, `general` all bulk messages, a list key the messages of that list."""

    email: str
    list_key: str
    reason: str
    source: str
    created_at: Time

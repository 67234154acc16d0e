"""A FastAPI application that confirms orders by email: MAILWRIGHT_URL=… MAILWRIGHT_API_KEY=… fastapi run app.py"""

from typing import Annotated

from fastapi import Depends, FastAPI

from mailwright_client import AsyncClient, models
from mailwright_client.fastapi import MailwrightDependency

email = MailwrightDependency()
app = FastAPI(lifespan=email.lifespan)


@app.post("/orders/{number}")
async def confirm(number: int, address: str, client: Annotated[AsyncClient, Depends(email)]) -> dict[str, str]:
    confirmation = models.SendRequest(
        to=address, from_="shop@example.com", subject=f"Order {number}", text="Thank you for your order."
    )
    # The key makes a repeated request send one email.
    accepted = await client.email.send(confirmation, idempotency_key=f"order-{number}")
    return {"message": accepted.outbox_id}

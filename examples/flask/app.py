"""A Flask application that confirms orders by email: MAILWRIGHT_URL=… MAILWRIGHT_API_KEY=… flask --app app run"""

from flask import Flask, request

from mailwright_client import models
from mailwright_client.flask import MailwrightExtension

app = Flask(__name__)
email = MailwrightExtension(app)


@app.post("/orders/<int:number>")
def confirm(number: int) -> dict[str, str]:
    confirmation = models.SendRequest(
        to=request.form["email"], from_="shop@example.com", subject=f"Order {number}", text="Thank you for your order."
    )
    # The key makes a repeated request send one email.
    accepted = email.client.email.send(confirmation, idempotency_key=f"order-{number}")
    return {"message": accepted.outbox_id}

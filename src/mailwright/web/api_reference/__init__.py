"""The API reference at `/docs`: every operation of the OpenAPI document, with examples, and forms to try them."""

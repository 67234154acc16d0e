"""A route of the dashboard that scripts call: errors are problem documents, not pages."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from mailwright.content.blocks.document import InvalidDocument
from mailwright.domain.errors import MailwrightError
from mailwright.domain.translation import gettext
from mailwright.web.errors import MEDIA_TYPE, known_problem, problem
from mailwright.web.languages import translated
from mailwright.web.session import SecondFactorRequired, SignInRequired


class JsonRoute(APIRoute):
    """`APIRouter(route_class=JsonRoute, include_in_schema=False)`. A visitor without a session gets the status 401.

    It closes the temporary files of uploads, as `PageRoute` does.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_with_problems(request: Request) -> Response:
            with translated(request):
                try:
                    return await handle(request)
                except (SignInRequired, SecondFactorRequired) as error:
                    return problem(
                        HTTPStatus.UNAUTHORIZED, error.code, gettext("Your session has ended. Sign in again.")
                    )
                except InvalidDocument as error:
                    content = {"detail": str(error.text), "code": error.code, "blockId": error.block_id}
                    return Response(orjson.dumps(content), HTTPStatus.UNPROCESSABLE_ENTITY, media_type=MEDIA_TYPE)
                except MailwrightError as error:
                    return await known_problem(request, error)
                finally:
                    await request.close()

        return handle_with_problems

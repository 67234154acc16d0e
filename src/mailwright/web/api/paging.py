"""The query parameters of paged lists."""

from typing import Annotated

from fastapi import Query

from mailwright.schemas.paging import Page

PageQuery = Annotated[Page, Query()]

"""Models of the brand kit."""

from mailwright.content.brand import Brand, contrast_warnings
from mailwright.schemas.base import ResponseModel


class BrandWarningResponse(ResponseModel):
    """Colours that are hard to read together. The brand kit is saved nevertheless."""

    field: str
    message: str


class BrandResponse(ResponseModel):
    brand: Brand
    warnings: list[BrandWarningResponse]


def brand_response(brand: Brand) -> BrandResponse:
    warnings = [BrandWarningResponse(field=each.field, message=each.message) for each in contrast_warnings(brand)]
    return BrandResponse(brand=brand, warnings=warnings)

"""Former names of the engine and its dependency, for routes that still use them."""

from mailwright.app.wiring import Engine
from mailwright.web.state import EngineDep, engine_of

ApiParts = Engine
Parts = EngineDep
parts_of = engine_of

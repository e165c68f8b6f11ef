"""All scalar functions, by name."""

from __future__ import annotations

from viewkeeper.functions.absolute import ABS, POSITIVE, SIGN
from viewkeeper.functions.characters import ASCII, CHR
from viewkeeper.functions.concat import CONCAT, CONCAT_WS
from viewkeeper.functions.date_arithmetic import ADD_MONTHS, DATE_ADD, DATE_SUB, DATEDIFF, LAST_DAY, MAKE_DATE, NEXT_DAY
from viewkeeper.functions.date_format import DATE_FORMAT
from viewkeeper.functions.date_parts import PARTS
from viewkeeper.functions.digests import CRC32, MD5, SHA1, SHA2
from viewkeeper.functions.ends_of_years import HELD
from viewkeeper.functions.epochs import EPOCHS
from viewkeeper.functions.finding import CONTAINS, ENDSWITH, INSTR, LOCATE, SPLIT_PART, STARTSWITH, SUBSTRING_INDEX
from viewkeeper.functions.floats import ISNAN, SQRT
from viewkeeper.functions.function import Function
from viewkeeper.functions.greatest import GREATEST, LEAST
from viewkeeper.functions.integers import INTEGERS
from viewkeeper.functions.intervals import INTERVALS
from viewkeeper.functions.length import BIT_LENGTH, LENGTH, OCTET_LENGTH
from viewkeeper.functions.letter_case import INITCAP, LOWER, UPPER
from viewkeeper.functions.matching import ILIKE, LIKE, RLIKE
from viewkeeper.functions.nested_making import MAKING
from viewkeeper.functions.nested_order import ORDERED
from viewkeeper.functions.nested_parts import PARTS as NESTED_PARTS
from viewkeeper.functions.padding import LPAD, REPEAT, REVERSE, RPAD, SPACE
from viewkeeper.functions.replace import REPLACE
from viewkeeper.functions.rounding import BROUND, CEIL, FLOOR, ROUND
from viewkeeper.functions.substring import LEFT, RIGHT, SUBSTRING
from viewkeeper.functions.translate import TRANSLATE
from viewkeeper.functions.trim import BTRIM, LTRIM, RTRIM, TRIM
from viewkeeper.functions.truncation import DATE_TRUNC, TRUNC

_ALL = (
    ABS, POSITIVE, SIGN, ASCII, CHR, CONCAT, CONCAT_WS, ADD_MONTHS, DATE_ADD, DATE_SUB, DATEDIFF, LAST_DAY, MAKE_DATE,
    NEXT_DAY, DATE_FORMAT, *PARTS, CRC32, MD5, SHA1, SHA2, *EPOCHS, GREATEST, LEAST, CONTAINS, ENDSWITH, INSTR, LOCATE,
    SPLIT_PART, STARTSWITH, SUBSTRING_INDEX, ISNAN, SQRT, *INTEGERS, *INTERVALS, *HELD.values(),
    BIT_LENGTH, LENGTH, OCTET_LENGTH, INITCAP, LOWER, UPPER, ILIKE, LIKE, RLIKE, LPAD, REPEAT, REVERSE, RPAD, SPACE,
    REPLACE, BROUND, CEIL, FLOOR, ROUND, LEFT, RIGHT, SUBSTRING, BTRIM, LTRIM, RTRIM, TRIM, TRANSLATE, DATE_TRUNC,
    TRUNC, *MAKING, *NESTED_PARTS, *ORDERED,
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {function.name: function for function in _ALL}
"""By the name that a bound call has."""

BY_NAME: dict[str, Function] = FUNCTIONS | {alias: function for function in _ALL for alias in function.aliases}
"""By every name by which a query may call it, in small letters."""

"""Identifier fields as separate columns, with the types of the schema.

    IntHandler                          bigint
    FloatHandler                        double
    DateHandler                         date
    TimeHandler                         string, HHMM
    EnumHandler, StringHandler, ...     string

A text that does not read as its type gives null. Places are in ``geometry`` already.
"""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.core.fields.field import Field, ScalarField
from aviso_server.core.fields.moment import DateField
from aviso_server.core.fields.number import FloatField, IntField
from aviso_server.core.schema import Schema

SUFFIX = "_field"
"""Appended to the name of a field that is the name of another column already."""

# To the very end of the text: Java's $ lets a line break follow, and casts ignore blanks.
_INT = r"\A[+-]?[0-9]+\z"
_FLOAT = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"
_DATE = r"\A([0-9]{4})-?([0-9]{2})-?([0-9]{2})\z"


def with_fields(rows: DataFrame, schema: Schema) -> DataFrame:
    """The rows with a column for each field of the schema, in its order."""
    names = column_names(schema, rows.columns)
    fields = [(field, names[field.name]) for field in schema.fields if field.name in names]
    return rows.select("*", *(_value(field).alias(name) for field, name in fields))


def column_names(schema: Schema, taken: Iterable[str]) -> dict[str, str]:
    """The column of each field that gets one. Spark does not distinguish names by case."""
    used = {name.lower() for name in taken}
    names = {}
    for field in schema.fields:
        if not isinstance(field, ScalarField):
            continue
        name = field.name
        while name.lower() in used:
            name += SUFFIX
        used.add(name.lower())
        names[field.name] = name
    return names


def int_value(text: Column) -> Column:
    """The signed 64-bit integer that a text spells, or null (core.numeral)."""
    return F.when(text.rlike(_INT), text.try_cast("bigint"))


def float_value(text: Column) -> Column:
    """The double that a text of digits spells, or null; infinite where it spells a larger one."""
    return F.when(text.rlike(_FLOAT), text.try_cast("double"))


def _value(field: Field) -> Column:
    text = F.col("identifier")[field.name]
    match field:
        case IntField():
            return int_value(text)
        case FloatField():
            return float_value(text)
        case DateField():
            dashed = F.regexp_replace(text, _DATE, "$1-$2-$3")
            return F.when(text.rlike(_DATE), dashed.try_cast("date"))
        case _:
            return text

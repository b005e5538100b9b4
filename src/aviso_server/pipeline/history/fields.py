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

_INT = r"^[+-]?[0-9]+$"
_FLOAT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_DATE = r"^([0-9]{4})-?([0-9]{2})-?([0-9]{2})$"


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


def _value(field: Field) -> Column:
    text = F.col("identifier")[field.name]
    match field:
        case IntField():
            return F.when(text.rlike(_INT), text.try_cast("bigint"))
        case FloatField():
            return F.when(text.rlike(_FLOAT), text.try_cast("double"))
        case DateField():
            dashed = F.regexp_replace(text, _DATE, "$1-$2-$3")
            return F.when(text.rlike(_DATE), dashed.try_cast("date"))
        case _:
            return text

"""Identifier fields as separate columns, with the types of the schema.

    IntHandler                          bigint
    FloatHandler                        double
    DateHandler                         date
    TimeHandler                         string, HHMM
    EnumHandler, StringHandler, ...     string

A text that does not read as its type gives null. Places are in ``geometry`` already.
"""

import math

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.core.fields.field import Field
from aviso_server.core.fields.moment import DateField
from aviso_server.core.fields.number import FloatField, IntField
from aviso_server.core.schema import Schema
from aviso_server.lake.typed.columns import column_names

# To the very end of the text: Java's $ lets a line break follow, and casts ignore blanks.
_INT = r"\A[+-]?[0-9]+\z"
_FLOAT = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"
_DATE = r"\A([0-9]{4})(-?)([0-9]{2})\2([0-9]{2})\z"


def with_fields(rows: DataFrame, schema: Schema) -> DataFrame:
    """The rows with a column for each field of the schema, in its order."""
    names = column_names(schema, rows.columns)
    fields = [(field, names[field.name]) for field in schema.fields if field.name in names]
    return rows.select("*", *(_value(field).alias(name) for field, name in fields))


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
            value = float_value(text)
            return F.when(F.abs(value) < math.inf, value)
        case DateField():
            dashed = F.regexp_replace(text, _DATE, "$1-$3-$4")
            return F.when(text.rlike(_DATE), dashed.try_cast("date"))
        case _:
            return text

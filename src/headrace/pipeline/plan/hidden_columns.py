"""Which columns of a flow's rows hidden columns of topics are part of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.plan.plan_step import PlanStep, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame

    from headrace.pipeline.declarations import TopicSource


def hidden_columns(rows: DataFrame, places: Mapping[str, TopicSource]) -> frozenset[str]:
    """Return the columns of a flow's rows that are made from hidden columns, whatever their names.

    `places`: the topic of each directory that stands for one.
    """
    if not any(source.hidden for source in places.values()):
        return frozenset()
    plan = PlanStep.of(rows._jdf.queryExecution().analyzed())
    hidden = _hidden(plan, places)
    return frozenset(column.name() for column in plan.output() if _id(column) in hidden)


def _hidden(step: PlanStep, places: Mapping[str, TopicSource]) -> set[int]:
    """Return the ids of a node's columns that are made from hidden ones.

    A column whose origin the node does not tell, such as one of a Python function over whole rows,
    is hidden if a column below is.
    """
    if (source := step.source(places)) is not None:
        return {_id(column) for column in step.output() if column.name() in source.hidden}
    below = {number for child in step.below for number in _hidden(child, places)}
    if not below:
        return set()
    forwarded = {_id(column) for child in step.below for column in child.output()}
    made = {_id(each): each for each in step.expressions() if kind_of(each) == "Alias"}
    hidden = set()
    for column in step.output():
        number = _id(column)
        if number in made:
            origin = _references(made[number]) & below
        elif number in forwarded:
            origin = {number} & below
        else:
            origin = below
        if origin:
            hidden.add(number)
    return hidden


def _references(expression: JavaObject) -> set[int]:
    columns = expression.references().toSeq()
    return {_id(columns.apply(number)) for number in range(columns.size())}


def _id(column: JavaObject) -> int:
    return int(column.exprId().id())

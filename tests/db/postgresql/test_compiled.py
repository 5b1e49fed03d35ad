import pytest
from django.db.models import BooleanField, QuerySet
from django.db.models.expressions import RawSQL

from gpuplatform.postgresql.compiled import CompiledRows
from tests.factories.unit_rows import spec_row, unit_row
from units.models import GpuUnit
from units.selectors import units_live

pytestmark = pytest.mark.django_db


def test_objects_equal_those_of_the_queryset() -> None:
    spec_row()
    unit_row(name="a")
    unit_row(name="b")

    def named(namespace: str, name: str) -> QuerySet[GpuUnit]:
        return units_live().filter(namespace=namespace, name=name)

    compiled = CompiledRows(named)
    for name in ("a", "b", "missing"):
        expected = list(named("runtime-instance", name))
        found = compiled.objects("runtime-instance", name)

        assert [_content(one) for one in found] == [_content(one) for one in expected]


def test_deferred_columns_are_read_later() -> None:
    unit = unit_row(name="a")
    compiled = CompiledRows(lambda name: GpuUnit.objects.filter(name=name).defer("spec"))

    [found] = compiled.objects("a")

    assert found.get_deferred_fields() == {"spec"}
    assert found.spec == unit.spec


def test_queryset_is_built_once_for_all_values() -> None:
    units = [unit_row(gpu=gpu) for gpu in (1, 2)]
    built = []

    def some(numbers: list[int], least: int) -> QuerySet[GpuUnit]:
        built.append(numbers)
        condition = RawSQL("id = ANY(%s)", [numbers], output_field=BooleanField())
        return GpuUnit.objects.filter(condition, gpu__gte=least).order_by("id")

    compiled = CompiledRows(some)
    numbers = [one.pk for one in units]

    assert compiled.objects(numbers, 1) == units
    assert compiled.objects(numbers, 2) == units[1:]
    assert compiled.objects([], 1) == []
    assert len(built) == 1


def _content(unit: GpuUnit) -> dict[str, object]:
    content = {key: value for key, value in vars(unit).items() if key != "_state"}
    assert unit.tenant is not None
    return {**content, "tenant": vars(unit.tenant)["name"]}

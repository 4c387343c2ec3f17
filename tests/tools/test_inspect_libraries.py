"""Laws of `inspect` for libraries: what a value of each is told as, and that nothing is computed.

Most libraries come with the tests; torch, Spark and Ray are large (`pip install jupyter-ctx[data]`
brings them), and a test whose library is absent skips and names it.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pandas as pd
import pytest

from jupyter_ctx.tools.inspect import inspect_value
from jupyter_ctx.tools.measures import memory_of, shape_of
from jupyter_ctx.tools.naming import type_name

pytestmark = pytest.mark.filterwarnings("default")  # theirs: on import, on versions they await


def library(name: str) -> Any:
    """Return a module; skips the test, naming it, where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"NO {name.upper()}: values of {name} were not looked at ({error})")


class Computed(BaseException):
    """Something lazy was computed."""


def refuse(*args: object, **kwargs: object) -> Any:
    """Stand for work that must not be done."""
    raise Computed


def lines(value: object) -> list[str]:
    """Return the lines `inspect` gives; the look must not have failed."""
    said = inspect_value(value)
    assert "could not be looked into" not in said
    return said.split("\n")


@pytest.fixture
def people() -> pd.DataFrame:
    """Give a small frame with a gap."""
    return pd.DataFrame({"name": ["Ada", "Bob"], "age": [36.0, None]})


# Always there -------------------------------------------------------------------------------------


class Loud(pd.DataFrame):
    """A frame whose class answers nothing."""

    __getattribute__ = refuse


def test_a_subclass_of_a_frame_is_read_past_what_it_overrides(people: pd.DataFrame) -> None:
    """The data is told as pandas would, and no code of the subclass runs."""
    loud = Loud.__new__(Loud)
    object.__setattr__(loud, "_mgr", people._mgr)

    assert lines(loud)[0].startswith(f"{__name__}.Loud: pandas.DataFrame, 2 rows × 2 columns")
    assert lines(loud)[1] == "columns: name str, age float64 (1 missing)"


class Unit(np.ndarray):
    """An array whose class answers nothing."""

    __getattribute__ = refuse


def test_a_subclass_of_an_array_is_read_as_an_array() -> None:
    """The values are told, and no code of the subclass runs."""
    assert lines(np.arange(3.0).view(Unit)) == [
        f"{__name__}.Unit, float64, 3, 24 B",
        "values: 0.0, 1.0, 2.0",
    ]


def test_an_array_tells_memory_range_and_gaps() -> None:
    """NaN are counted and left out of the range; masked values are counted."""
    array = np.array([*range(20), np.nan])
    masked = np.ma.masked_array([1, 2], [False, True])

    assert lines(array)[0] == "numpy.ndarray, float64, 21, 168 B, 1 missing, from 0 to 19"
    assert lines(masked)[0] == "numpy.ma.MaskedArray, int64, 2, 16 B, 1 masked"


def test_an_array_on_disk_is_not_read(tmp_path: Path) -> None:
    """A memory map is told by shape and type."""
    array = np.memmap(tmp_path / "a", dtype="int8", mode="w+", shape=(5, 2))

    assert lines(array) == ["numpy.memmap, int8, 5 × 2, 10 B, on disk: not read"]


def test_a_figure_tells_its_axes() -> None:
    """Size, titles, labels, what is drawn and the legend are told."""
    figure = matplotlib.figure.Figure()
    axes = figure.subplots(1, 2)
    axes[0].plot([1, 2], label="north")
    axes[0].set(title="Sales", xlabel="month")
    axes[0].legend()

    assert lines(figure) == [
        "matplotlib.figure.Figure, 6.4 × 4.8 in at 100 dpi, 2 axes",
        'axes 1: title "Sales", x "month", 1 line, legend: north',
        "axes 2: empty",
    ]
    assert lines(axes[0])[0] == "matplotlib.axes.Axes"


def test_five_thousand_columns_are_bounded(people: pd.DataFrame) -> None:
    """Of a wide frame 200 columns are named, 20 shown, and the rest counted."""
    said = inspect_value(pd.DataFrame(np.zeros((3, 5_000))))

    assert "3 rows × 5,000 columns" in said
    assert "… 4,800 more" in said
    assert len(said) <= 6_000


# Frames -------------------------------------------------------------------------------------------


def test_arrow_tables(people: pd.DataFrame) -> None:
    """A table tells schema, memory, gaps and rows; a dataset its schema only."""
    arrow = library("pyarrow")
    table = arrow.Table.from_pandas(people)

    assert lines(table)[0].startswith("pyarrow.Table, 2 rows × 2 columns, ")
    assert lines(table)[1].endswith("age double (1 missing)")
    assert lines(table)[3:] == ["name | age", "Ada | 36.0", "Bob | None"]
    assert lines(arrow.array([1, None]))[1] == "values: 1, None"
    assert lines(table.schema)[0] == "pyarrow.Schema, 2 columns"


def test_arrow_files_are_not_read(people: pd.DataFrame, tmp_path: Path) -> None:
    """A dataset and a Parquet file tell the schema they know; no row is read."""
    dataset, parquet = library("pyarrow.dataset"), library("pyarrow.parquet")
    parquet.write_table(library("pyarrow").Table.from_pandas(people), tmp_path / "p.parquet")
    file = parquet.ParquetFile(tmp_path / "p.parquet")
    files = dataset.dataset(tmp_path)
    (tmp_path / "p.parquet").unlink()

    assert lines(files)[0] == "pyarrow._dataset.FileSystemDataset, 2 columns, not read"
    assert lines(file)[0] == "pyarrow.parquet.ParquetFile, 2 columns, 2 rows, not read"
    file.close()


def test_dask_frames_are_not_computed(people: pd.DataFrame) -> None:
    """A Dask frame tells the types it knows and its partitions; its work is not done."""
    frames = library("dask.dataframe")
    frame = frames.from_pandas(people, npartitions=2)
    worked = frame.map_partitions(refuse, meta=people)

    assert lines(worked)[0] == (
        "dask.dataframe.DataFrame, 2 columns, 2 partitions, lazy: not computed"
    )
    assert lines(worked)[1].startswith("columns: name ")
    assert "float64, named age, 2 partitions, lazy" in lines(worked["age"])[0]


def test_dask_frames_read_no_file(people: pd.DataFrame, tmp_path: Path) -> None:
    """Partitions that only a look into files would tell are not told."""
    frames, _ = library("dask.dataframe"), library("pyarrow")
    people.to_parquet(tmp_path / "p.parquet")
    frame = frames.read_parquet(tmp_path / "p.parquet")
    (tmp_path / "p.parquet").unlink()

    assert lines(frame)[0] == "dask.dataframe.DataFrame, 2 columns, lazy: not computed"


def test_dask_arrays_are_not_computed() -> None:
    """A Dask array tells shape, type, chunks and what it would take."""
    arrays = library("dask.array")
    array = arrays.ones((1_000, 1_000), chunks=(100, 1_000)).map_blocks(refuse, dtype="f8", meta=0)

    assert "8.0 MB when computed, in 10 × 1 chunks, lazy: not computed" in lines(array)[0]
    assert shape_of(array) == "float64 1,000 × 1,000, lazy"


def test_duckdb_relations_are_not_run() -> None:
    """A relation tells its columns; running it would fail."""
    duckdb = library("duckdb")
    connection = duckdb.connect()
    relation = connection.sql("select error('computed')::int as a, 'x' as b")

    assert lines(relation)[0].startswith("duckdb.DuckDBPyRelation, 2 columns, lazy")
    assert lines(relation)[1] == "columns: a INTEGER, b VARCHAR"
    assert "not asked" in lines(connection)[0]
    connection.close()


def test_ibis_tables_are_not_run() -> None:
    """A table of no backend at all tells its schema; interactive mode runs nothing either."""
    ibis = library("ibis")
    table = ibis.table({"a": "int64", "b": "string"}, name="t")
    ibis.options.interactive = True
    try:
        said = lines(table.mutate(c=table.a + 1))
        column = lines(table.a)
    finally:
        ibis.options.interactive = False

    assert said == [
        "ibis.Table, 3 columns, lazy: not computed",
        "columns: a int64, b string, c int64",
    ]
    assert column[0].endswith("int64, lazy: not computed")


# Arrays -------------------------------------------------------------------------------------------


def test_tensors() -> None:
    """A tensor tells type, shape, memory, device and values; a network its layers."""
    torch = library("torch")
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())

    assert lines(torch.arange(12.0).reshape(3, 4)) == [
        "torch.Tensor, float32 3 × 4, 48 B",
        "values: 0.0, 1.0, 2.0, 3.0, … 8 more",
    ]
    assert "1 missing" in lines(torch.tensor([float("nan"), 1.0]))[0]
    assert lines(torch.empty(3, device="meta"))[0] == (
        "torch.Tensor, float32 3 on meta, 12 B, strided"
    )
    assert lines(net[0].weight)[0].endswith("48 B, requires grad")
    assert lines(net)[0] == "torch.nn.Sequential, a torch module, 16 parameters, training"
    assert lines(net)[1] == "0: torch.nn.Linear, 16 parameters"


def test_a_network_of_the_users_is_not_called() -> None:
    """A module's own class may raise at every turn: its layers are read past it."""
    torch = library("torch")

    base: Any = torch.nn.Module

    class Net(base):  # type: ignore[misc]  # torch is Any here
        __repr__ = __call__ = extra_repr = parameters = __len__ = refuse

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

    net = Net()
    Net.__getattribute__ = refuse  # type: ignore[method-assign]

    assert lines(net)[1] == "layer: torch.nn.Linear, 6 parameters"


def test_sparse_matrices() -> None:
    """Shape, stored values and memory are told."""
    sparse = library("scipy.sparse")

    assert lines(sparse.csr_matrix(np.eye(3))) == [
        "scipy.sparse.csr_matrix, float64 3 × 3, 3 stored, 52 B",
        "stored values: 1.0, 1.0, 1.0",
    ]
    assert lines(sparse.coo_array(np.eye(3)))[0].startswith("scipy.sparse.coo_array, float64 3 × 3")


def test_labelled_arrays(tmp_path: Path) -> None:
    """Dimensions, types and coordinates are told; data that is not in memory is not read."""
    xarray, arrays = library("xarray"), library("dask.array")
    lazy = arrays.ones(4, chunks=2).map_blocks(refuse, dtype="f8", meta=np.zeros(0))
    data = xarray.Dataset(
        {"t": (("x", "y"), np.zeros((2, 3))), "far": ("z", lazy)}, coords={"x": [1, 2]}
    )

    assert lines(data) == [
        "xarray.Dataset, x 2, y 3, z 4, 2 variables",
        "t: float64 (x 2, y 3), 48 B",
        "far: float64 (z 4), 32 B, not in memory: not read",
        "coordinate x: int64 (x 2), 16 B; 1, 2",
    ]
    assert lines(data.t)[-1] == "values: 0.0, 0.0, 0.0, 0.0, 0.0, 0.0"


# Models and handles -------------------------------------------------------------------------------


def test_estimators() -> None:
    """Parameters that differ from the default, steps, and what fitting added are told."""
    linear, pipeline = library("sklearn.linear_model"), library("sklearn.pipeline")
    data, target = np.random.default_rng(1).random((20, 3)), np.arange(20) % 2
    model = linear.LogisticRegression(C=2)
    before = lines(model)
    model.fit(data, target)
    steps = pipeline.make_pipeline(linear.Ridge(), model)

    assert before == [
        "sklearn.linear_model.LogisticRegression, a scikit-learn estimator, not fitted",
        "parameters: C=2",
    ]
    assert "coef_=<float64 1 × 3>" in lines(model)[2]
    assert lines(steps)[0].endswith("estimator, fitted")
    assert lines(steps)[1].startswith("steps: ridge sklearn.linear_model.Ridge, ")


def test_database_handles() -> None:
    """Engines show no password; tables their columns; nothing is connected or fetched."""
    sql = library("sqlalchemy")
    engine = sql.create_engine("sqlite:///file.db", creator=refuse)
    url = sql.engine.make_url("sqlite://user:secret@host/db")
    engine.url = url
    table = sql.Table(
        "people",
        sql.MetaData(),
        sql.Column("id", sql.Integer, primary_key=True),
        sql.Column("name", sql.String(20)),
    )

    assert "secret" not in inspect_value(engine)
    assert lines(engine)[0] == "sqlalchemy.Engine, sqlite://user:***@host/db, not asked"
    assert lines(table)[1] == "columns: id INTEGER (primary key), name VARCHAR(20)"
    assert lines(table.metadata) == ["sqlalchemy.MetaData, 1 tables: people"]
    assert lines(sql.select(table.c.name))[1].startswith("SELECT people.name")
    memory = sql.create_engine("sqlite://")
    with memory.connect() as connection:
        result = connection.execute(sql.text("select 1"))
        assert "not fetched" in inspect_value(result)
        assert result.fetchall() == [(1,)]
    memory.dispose()


def in_a_process(code: str, env: dict[str, str] | None = None) -> str:
    """Return what a program prints: a cluster must not live on in the tests' own process."""
    root = str(Path(__file__).parents[2])
    program = f"import sys; sys.path.insert(0, {root!r})\n" + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env=env,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a home of its own, as some of them write there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_dask_client_is_named_with_address_and_size(home: Path) -> None:
    """Address, workers and threads are told of a client, also in the list of names."""
    library("distributed")
    said = in_a_process(
        """
        if __name__ == "__main__":
            from distributed import Client
            from jupyter_ctx.tools.inspect import inspect_value
            from jupyter_ctx.tools.measures import shape_of
            with Client(n_workers=2, threads_per_worker=3, processes=False,
                        dashboard_address=None) as client:
                print(inspect_value(client), shape_of(client), inspect_value(client.cluster),
                      client.scheduler.address, sep="\\n")
        """
    ).split("\n")

    address = said[4]
    assert said[0].startswith(f"distributed.Client, running, {address}: 2 workers, 6 threads, ")
    assert said[2] == f"{address}, 2 workers"
    assert said[3].startswith(f"distributed.LocalCluster, running, {address}: 2 workers")


def test_a_spark_session_is_named_with_its_master(home: Path) -> None:
    """The master is told; a frame tells its columns, and its work is not done."""
    library("pyspark")
    said = in_a_process(
        """
        from pyspark.sql import SparkSession, functions
        from jupyter_ctx.tools.inspect import inspect_value
        spark = (SparkSession.builder.master("local[1]").appName("t")
                 .config("spark.ui.enabled", "false").getOrCreate())
        frame = spark.range(5).withColumn("b", functions.raise_error(functions.lit("computed")))
        print(inspect_value(spark), inspect_value(frame), sep="\\n")
        spark.stop()
        """
    ).split("\n")

    assert said[0].endswith('SparkSession "t", master local[1]')
    assert said[2].endswith("DataFrame, 2 columns, lazy: not computed")
    assert said[3] == "columns: id bigint, b void"


def test_a_ray_context_is_named_with_its_address(home: Path) -> None:
    """The address is told of a context; a reference is not fetched."""
    library("ray")
    said = (
        in_a_process(
            """
        import os
        os.environ["RAY_AUTH_MODE"] = "disabled"
        import ray
        from jupyter_ctx.tools.inspect import inspect_value
        context = ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
        print(inspect_value(context), inspect_value(ray.put(1)), sep="\\n")
        print(context.address_info["address"])
        ray.shutdown()
        """
        )
        .strip()
        .split("\n")
    )

    assert said[-1] in said[0]
    assert said[2] == "ray.ObjectRef, remote: its value is not fetched"


def test_names_are_those_one_imports() -> None:
    """A type is named by the shortest loaded package that has it; a lying one as it says."""
    lying = type("DataFrame", (), {"__module__": "pandas.core.frame"})

    assert type_name(pd.DataFrame) == "pandas.DataFrame"
    assert type_name(lying) == "pandas.core.frame.DataFrame"
    assert (shape_of(lying()), memory_of(lying())) == ("", "")

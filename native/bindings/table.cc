// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/table.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>

#include "bindings.h"
#include "fleetrec/table/batch_lookup.h"
#include "fleetrec/table/rows.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace fleetrec {
namespace {

template <typename T, typename... Shape>
using Array = nb::ndarray<T, nb::device::cpu, nb::c_contig, Shape...>;
using Ids = Array<const std::int64_t, nb::ndim<1>>;
using Vector = Array<const float, nb::ndim<1>>;
using Matrix = Array<const float, nb::ndim<2>>;
using Named = std::map<std::string, double>;

template <typename T, typename... Shape>
std::span<T> to_span(const Array<T, Shape...>& array) {
  return {array.data(), array.size()};
}

template <typename T>
nb::ndarray<nb::numpy, T> new_array(std::vector<std::size_t> shape) {
  const std::size_t size =
      std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  auto memory = std::make_unique_for_overwrite<T[]>(size);
  nb::capsule owner(memory.get(), [](void* first) noexcept { delete[] static_cast<T*>(first); });
  return nb::ndarray<nb::numpy, T>(memory.release(), shape.size(), shape.data(), owner);
}

double take(Named& values, const char* key, double otherwise) {
  const auto found = values.find(key);
  if (found == values.end()) return otherwise;
  const double value = found->second;
  values.erase(found);
  return value;
}

Guards to_guards(Named values) {
  Guards guards;
  guards.l2 = take(values, "l2", 0.0);
  guards.clip_value = take(values, "clip_value", 0.0);
  guards.clip_norm = take(values, "clip_norm", 0.0);
  guards.min_weight = take(values, "min_weight", 0.0);
  guards.max_weight = take(values, "max_weight", 0.0);
  if (!values.empty()) {
    throw std::invalid_argument("no guard is called '" + values.begin()->first + "'");
  }
  return guards;
}

using InitialTuple = std::tuple<std::string, double, double>;
using AdmissionTuple = std::tuple<std::string, double, double, double>;

std::shared_ptr<Table> make_table(const std::string& name, std::size_t dim,
                                  std::optional<std::uint64_t> num_rows, std::uint64_t salt,
                                  const InitialTuple& initial, const std::string& optimizer,
                                  const Named& hyperparameters, const Named& guards,
                                  const AdmissionTuple& admission) {
  const auto& [kind, center, scale] = initial;
  const auto& [policy, threshold, show_weight, click_weight] = admission;
  TableOptions options{
      .name = name,
      .dim = dim,
      .num_rows = num_rows,
      .initializer = {initial_kind(kind), center, scale, salt},
      .admission = {admission_kind(policy), threshold, show_weight, click_weight, salt},
  };
  const NamedValues named(hyperparameters.begin(), hyperparameters.end());
  return std::make_shared<Table>(std::move(options),
                                 GuardedOptimizer(optimizer, named, to_guards(guards)));
}

// Every id is a sample of its own.
struct SingleIds {
  explicit SingleIds(const Ids& ids) : offsets(ids.size() + 1) {
    std::iota(offsets.begin(), offsets.end(), 0);
    batch = {to_span(ids), offsets, ids.size()};
  }

  std::vector<std::int64_t> offsets;
  JaggedIds batch;
};

BatchLookup single_lookup(const std::shared_ptr<Table>& table) {
  return BatchLookup({table}, {{.column = 0, .table = 0, .combiner = Combiner::kSum}});
}

nb::ndarray<nb::numpy, float> pull(const std::shared_ptr<Table>& table, const Ids& ids,
                                   bool create) {
  auto rows = new_array<float>({ids.size(), table->layout().dim});
  const nb::gil_scoped_release released;
  const SingleIds single(ids);
  BatchLookup lookup = single_lookup(table);
  lookup.find(single.batch, {.purpose = create ? Purpose::kTrain : Purpose::kRead});
  lookup.pool({rows.data(), rows.size()});
  return rows;
}

void push(const std::shared_ptr<Table>& table, const Ids& ids, const Matrix& grads, double lr) {
  if (grads.shape(0) != ids.size() || grads.shape(1) != table->layout().dim) {
    throw std::invalid_argument("expected one gradient of the table's width per id");
  }
  const nb::gil_scoped_release released;
  const SingleIds single(ids);
  BatchLookup lookup = single_lookup(table);
  lookup.find(single.batch, {.purpose = Purpose::kUpdate});
  lookup.apply(to_span(grads), static_cast<float>(lr));
}

std::size_t evict(Table& table, const Ids& ids) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(table.mutex());
  const std::uint64_t before = table.counts().evicted;
  for (const std::int64_t signed_id : to_span(ids)) {
    const auto id = static_cast<std::uint64_t>(signed_id);
    if (table.is_in_range(id)) table.evict(id, table.place(id));
  }
  return table.counts().evicted - before;
}

// Columns in memory that Python may take over.
template <typename T>
struct Column {
  explicit Column(std::size_t num_rows, std::size_t num_columns = 1)
      : memory(std::make_unique_for_overwrite<T[]>(num_rows * num_columns)),
        shape{num_rows, num_columns} {}

  std::span<T> span() { return {memory.get(), shape[0] * shape[1]}; }

  nb::object release(std::size_t num_dims) {
    nb::capsule owner(memory.get(), [](void* first) noexcept { delete[] static_cast<T*>(first); });
    return nb::cast(nb::ndarray<nb::numpy, T>(memory.release(), num_dims, shape, owner));
  }

  std::unique_ptr<T[]> memory;
  std::size_t shape[2];
};

struct Snapshot {
  Snapshot(const Table& table, std::size_t size)
      : ids(size),
        rows(size, table.layout().dim),
        state(size, table.layout().state_size),
        shows(size),
        clicks(size),
        last_seen(size) {}

  Column<std::int64_t> ids;
  Column<float> rows;
  Column<float> state;
  Column<float> shows;
  Column<float> clicks;
  Column<std::uint32_t> last_seen;
};

Snapshot take_snapshot(Table& table) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(table.mutex());
  const std::vector<Row> rows = sorted_rows(table);
  Snapshot taken(table, rows.size());
  copy_rows(table, rows,
            {.ids = taken.ids.span(),
             .weights = taken.rows.span(),
             .state = taken.state.span(),
             .shows = taken.shows.span(),
             .clicks = taken.clicks.span(),
             .last_seen = taken.last_seen.span()});
  return taken;
}

nb::dict snapshot(Table& table) {
  Snapshot taken = take_snapshot(table);
  nb::dict columns;
  columns["ids"] = taken.ids.release(1);
  columns["rows"] = taken.rows.release(2);
  columns["state"] = taken.state.release(2);
  columns["shows"] = taken.shows.release(1);
  columns["clicks"] = taken.clicks.release(1);
  columns["last_seen"] = taken.last_seen.release(1);
  return columns;
}

template <typename T, typename... Shape>
std::span<T> optional_span(const std::optional<Array<const T, Shape...>>& array) {
  // replace_rows only reads.
  return array ? std::span<T>(const_cast<T*>(array->data()), array->size()) : std::span<T>();
}

void restore(Table& table, const Ids& ids, const Matrix& rows, const std::optional<Matrix>& state,
             const std::optional<Vector>& shows, const std::optional<Vector>& clicks,
             const std::optional<Array<const std::uint32_t, nb::ndim<1>>>& last_seen) {
  const std::size_t size = ids.size();
  const RowLayout& layout = table.layout();
  const bool fits = rows.shape(0) == size && rows.shape(1) == layout.dim &&
                    (!state || (state->shape(0) == size && state->shape(1) == layout.state_size)) &&
                    (!shows || shows->size() == size) && (!clicks || clicks->size() == size) &&
                    (!last_seen || last_seen->size() == size);
  if (!fits) throw std::invalid_argument("the columns do not have the shapes of the table");
  const nb::gil_scoped_release released;
  const std::lock_guard lock(table.mutex());
  replace_rows(table, {.ids = {const_cast<std::int64_t*>(ids.data()), size},
                       .weights = {const_cast<float*>(rows.data()), rows.size()},
                       .state = optional_span(state),
                       .shows = optional_span(shows),
                       .clicks = optional_span(clicks),
                       .last_seen = optional_span(last_seen)});
}

Combiner to_combiner(const std::string& name) {
  if (name == "sum") return Combiner::kSum;
  if (name == "mean") return Combiner::kMean;
  if (name == "sqrtn") return Combiner::kSqrtN;
  throw std::invalid_argument("no combiner is called '" + name + "'");
}

using FeatureTuple = std::tuple<std::size_t, std::size_t, std::string>;

void make_lookup(BatchLookup* self, std::vector<std::shared_ptr<Table>> tables,
                 const std::vector<FeatureTuple>& features,
                 const std::vector<std::size_t>& frozen) {
  std::vector<LookupFeature> wanted;
  for (const auto& [column, table, combiner] : features) {
    wanted.push_back({column, table, to_combiner(combiner)});
  }
  new (self) BatchLookup(std::move(tables), std::move(wanted), frozen);
}

void find(BatchLookup& lookup, const Ids& ids, const Ids& offsets, std::size_t num_samples,
          bool training, std::uint32_t now, const std::optional<Vector>& labels) {
  const nb::gil_scoped_release released;
  lookup.find({to_span(ids), to_span(offsets), num_samples},
              {.purpose = training ? Purpose::kTrain : Purpose::kRead,
               .now = now,
               .labels = labels ? to_span(*labels) : std::span<const float>()});
}

template <typename T, typename Value>
Column<T> to_column(const std::vector<Value>& values, std::size_t num_columns = 1) {
  Column<T> column(values.size() / num_columns, num_columns);
  std::ranges::transform(values, column.span().begin(),
                         [](const Value& value) { return static_cast<T>(value); });
  return column;
}

nb::tuple sights(const BatchLookup& lookup, std::size_t table,
                 const std::optional<Vector>& labels) {
  const std::vector<Sight> seen = lookup.sights(
      table,
      {.purpose = Purpose::kTrain, .labels = labels ? to_span(*labels) : std::span<const float>()});
  Column<std::int64_t> ids(seen.size());
  Column<std::uint8_t> clicks(seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ids.span()[i] = static_cast<std::int64_t>(seen[i].id);
    clicks.span()[i] = seen[i].is_click ? 1 : 0;
  }
  return nb::make_tuple(ids.release(1), clicks.release(1));
}

nb::list apply_and_tell(BatchLookup& lookup, const Matrix& grads, double lr) {
  std::vector<TableChanges> changes;
  {
    const nb::gil_scoped_release released;
    lookup.apply(to_span(grads), static_cast<float>(lr), &changes);
  }
  nb::list told;
  for (const TableChanges& change : changes) {
    auto ids = to_column<std::int64_t>(change.ids);
    auto sums = to_column<float>(change.grads, lookup.dim());
    told.append(nb::make_tuple(ids.release(1), sums.release(2)));
  }
  return told;
}

nb::dict optimizer_schema() {
  nb::dict schema;
  for (const RowOptimizerInfo& info : row_optimizers()) {
    nb::dict parameters;
    for (const auto& [name, value] : info.hyperparameters) {
      parameters[nb::str(name.data(), name.size())] = value;
    }
    schema[nb::str(info.name.data(), info.name.size())] = parameters;
  }
  return schema;
}

nb::dict stats(Table& table) {
  const std::lock_guard lock(table.mutex());
  nb::dict figures;
  figures["rows"] = table.size();
  figures["candidates"] = table.num_candidates();
  figures["bytes"] = table.num_bytes();
  figures["created"] = table.counts().created;
  figures["evicted"] = table.counts().evicted;
  return figures;
}

void bind_lookup(nb::module_& module) {
  nb::class_<BatchLookup>(module, "BatchLookup", nb::is_final())
      .def("__init__", &make_lookup, "tables"_a, "features"_a, "frozen"_a)
      .def("find", &find, "ids"_a.noconvert(), "offsets"_a.noconvert(), "num_samples"_a,
           nb::kw_only(), "training"_a, "now"_a = 0, "labels"_a.noconvert() = nb::none())
      .def(
          "pool",
          [](const BatchLookup& lookup, const Array<float, nb::ndim<2>>& vectors) {
            const nb::gil_scoped_release released;
            lookup.pool(to_span(vectors));
          },
          "vectors"_a.noconvert())
      .def(
          "apply",
          [](BatchLookup& lookup, const Matrix& grads, double lr) {
            const nb::gil_scoped_release released;
            lookup.apply(to_span(grads), static_cast<float>(lr));
          },
          "grads"_a.noconvert(), nb::kw_only(), "lr"_a)
      .def("apply_and_tell", &apply_and_tell, "grads"_a.noconvert(), nb::kw_only(), "lr"_a)
      .def("sights", &sights, "table"_a, nb::kw_only(), "labels"_a.noconvert() = nb::none());
}

}  // namespace

void bind_table(nb::module_& module) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const IdOutOfRange& fault) {
      const nb::tuple place = nb::make_tuple(fault.column, fault.id);
      PyErr_SetObject(PyExc_IndexError, place.ptr());
    }
  });
  module.def("optimizer_schema", &optimizer_schema);
  nb::class_<Table>(module, "Table", nb::is_final())
      .def(nb::new_(&make_table), nb::kw_only(), "name"_a, "dim"_a, "num_rows"_a.none(), "salt"_a,
           "initial"_a, "optimizer"_a, "hyperparameters"_a, "guards"_a, "admission"_a)
      .def("__len__", &Table::size)
      .def("pull", &pull, "ids"_a.noconvert(), nb::kw_only(), "create"_a)
      .def("push", &push, "ids"_a.noconvert(), "grads"_a.noconvert(), nb::kw_only(), "lr"_a)
      .def("evict", &evict, "ids"_a.noconvert())
      .def("snapshot", &snapshot)
      .def("restore", &restore, nb::kw_only(), "ids"_a.noconvert(), "rows"_a.noconvert(),
           "state"_a.noconvert() = nb::none(), "shows"_a.noconvert() = nb::none(),
           "clicks"_a.noconvert() = nb::none(), "last_seen"_a.noconvert() = nb::none())
      .def("stats", &stats);
  bind_lookup(module);
}

}  // namespace fleetrec

// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/table.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <numeric>

#include "arrays.h"
#include "bindings.h"
#include "fleetrec/table/batch_lookup.h"
#include "fleetrec/table/dense_step.h"
#include "fleetrec/table/evict.h"
#include "fleetrec/table/rows.h"

using namespace nanobind::literals;

namespace fleetrec {
namespace {

using Named = std::map<std::string, double>;

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
using LongVectorTuple = std::tuple<double, double, double>;

std::shared_ptr<Table> make_table(const std::string& name, std::size_t dim,
                                  std::optional<std::uint64_t> num_rows, bool hash_ids,
                                  std::uint64_t salt, const InitialTuple& initial,
                                  const std::string& optimizer, const Named& hyperparameters,
                                  const Named& guards, const AdmissionTuple& admission,
                                  const std::optional<LongVectorTuple>& long_vector, bool is_dense,
                                  const std::pair<std::uint32_t, std::uint32_t>& buckets) {
  const auto& [kind, center, scale] = initial;
  const auto& [policy, threshold, show_weight, click_weight] = admission;
  TableOptions options{
      .name = name,
      .dim = dim,
      .num_rows = num_rows,
      .folds_ids = hash_ids,
      .initializer = {initial_kind(kind), center, scale, salt},
      .admission = {admission_kind(policy), threshold, show_weight, click_weight, salt},
      .long_vector = std::nullopt,
      .is_dense = is_dense,
      .first_bucket = buckets.first,
      .last_bucket = buckets.second,
  };
  if (long_vector) options.long_vector = std::make_from_tuple<LongVector>(*long_vector);
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
  if (table->options().is_dense) update_other_rows(*table, to_span(ids), static_cast<float>(lr));
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
    const std::uint64_t id = table.row_id(static_cast<std::uint64_t>(signed_id));
    if (table.is_in_range(id)) table.evict(id, table.place(id));
  }
  return table.counts().evicted - before;
}

struct Snapshot {
  Snapshot(const Table& table, std::size_t size, std::size_t num_candidates)
      : ids(size),
        rows(size, table.layout().dim),
        state(size, table.layout().state_size),
        shows(size),
        clicks(size),
        last_seen(size),
        candidate_ids(num_candidates),
        candidate_last_seen(num_candidates),
        candidate_counts(num_candidates) {}

  Column<std::int64_t> ids;
  Column<float> rows;
  Column<float> state;
  Column<float> shows;
  Column<float> clicks;
  Column<std::uint32_t> last_seen;
  Column<std::int64_t> candidate_ids;
  Column<std::uint32_t> candidate_last_seen;
  Column<std::uint32_t> candidate_counts;
};

Snapshot take_snapshot(Table& table) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(table.mutex());
  const std::vector<Row> rows = sorted_rows(table);
  const std::vector<Candidate> candidates = sorted_candidates(table);
  Snapshot taken(table, rows.size(), candidates.size());
  copy_candidates(candidates, {.ids = taken.candidate_ids.span(),
                               .last_seen = taken.candidate_last_seen.span(),
                               .counts = taken.candidate_counts.span()});
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
  columns["candidate_ids"] = taken.candidate_ids.release(1);
  columns["candidate_last_seen"] = taken.candidate_last_seen.release(1);
  columns["candidate_counts"] = taken.candidate_counts.release(1);
  return columns;
}

template <typename T, typename... Shape>
std::span<T> optional_span(const std::optional<Array<const T, Shape...>>& array) {
  // add_rows only reads.
  return array ? std::span<T>(const_cast<T*>(array->data()), array->size()) : std::span<T>();
}

using OptionalMatrix = std::optional<Matrix>;
using OptionalVector = std::optional<Vector>;
using OptionalTimes = std::optional<Array<const std::uint32_t, nb::ndim<1>>>;

void put_rows(Table& table, const Ids& ids, const Matrix& rows, const OptionalMatrix& state,
              const OptionalVector& shows, const OptionalVector& clicks,
              const OptionalTimes& last_seen) {
  const std::size_t size = ids.size();
  const RowLayout& layout = table.layout();
  const bool fits = rows.shape(0) == size && rows.shape(1) == layout.dim &&
                    (!state || (state->shape(0) == size && state->shape(1) == layout.state_size)) &&
                    (!shows || shows->size() == size) && (!clicks || clicks->size() == size) &&
                    (!last_seen || last_seen->size() == size);
  if (!fits) throw std::invalid_argument("the columns do not have the shapes of the table");
  const nb::gil_scoped_release released;
  const std::lock_guard lock(table.mutex());
  add_rows(table, {.ids = {const_cast<std::int64_t*>(ids.data()), size},
                   .weights = {const_cast<float*>(rows.data()), rows.size()},
                   .state = optional_span(state),
                   .shows = optional_span(shows),
                   .clicks = optional_span(clicks),
                   .last_seen = optional_span(last_seen)});
}

void clear(Table& table) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(table.mutex());
  table.clear();
}

void restore_counts(Table& table, std::uint64_t created, std::uint64_t evicted,
                    std::uint64_t evicted_unseen, std::uint64_t evicted_score,
                    std::uint64_t evicted_capacity) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(table.mutex());
  table.set_counts({created, evicted, evicted_unseen, evicted_score, evicted_capacity});
}

nb::object fold_ids(const Ids& ids, std::uint64_t num_rows) {
  if (num_rows == 0) throw std::invalid_argument("num_rows must be at least 1");
  Column<std::int64_t> folded(ids.size());
  std::ranges::transform(to_span(ids), folded.span().begin(), [num_rows](std::int64_t id) {
    return static_cast<std::int64_t>(fold_id(static_cast<std::uint64_t>(id), num_rows));
  });
  return folded.release(1);
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

void bind_eviction(nb::class_<Table>& table) {
  table
      .def(
          "evict_unseen",
          [](Table& self, std::uint32_t before) {
            std::vector<std::uint64_t> removed;
            {
              const nb::gil_scoped_release released;
              removed = evict_unseen(self, before);
            }
            return to_column<std::int64_t>(removed).release(1);
          },
          nb::kw_only(), "before"_a)
      .def(
          "evict_low_scores",
          [](Table& self, double decay, double threshold, double show_weight, double click_weight) {
            std::vector<std::uint64_t> removed;
            {
              const nb::gil_scoped_release released;
              removed = evict_low_scores(self, {decay, threshold, show_weight, click_weight});
            }
            return to_column<std::int64_t>(removed).release(1);
          },
          nb::kw_only(), "decay"_a, "threshold"_a, "show_weight"_a, "click_weight"_a)
      .def(
          "evict_beyond",
          [](Table& self, std::size_t capacity) {
            std::vector<std::uint64_t> removed;
            {
              const nb::gil_scoped_release released;
              removed = evict_beyond(self, capacity);
            }
            return to_column<std::int64_t>(removed).release(1);
          },
          nb::kw_only(), "capacity"_a);
}

std::size_t size(Table& table) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(table.mutex());
  return table.size();
}

std::uint32_t version(Table& table) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(table.mutex());
  return table.version();
}

nb::dict stats(Table& table) {
  std::size_t num_rows, num_candidates, num_bytes;
  TableCounts counts;
  {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(table.mutex());
    num_rows = table.size();
    num_candidates = table.num_candidates();
    num_bytes = table.num_bytes();
    counts = table.counts();
  }
  nb::dict figures;
  figures["rows"] = num_rows;
  figures["candidates"] = num_candidates;
  figures["bytes"] = num_bytes;
  add_counts(figures, counts);
  return figures;
}

}  // namespace

void add_counts(nb::dict& figures, const TableCounts& counts) {
  figures["created"] = counts.created;
  figures["evicted"] = counts.evicted;
  figures["evicted_unseen"] = counts.evicted_unseen;
  figures["evicted_score"] = counts.evicted_score;
  figures["evicted_capacity"] = counts.evicted_capacity;
}

void bind_table(nb::module_& module) {
  module.def("optimizer_schema", &optimizer_schema);
  module.def("fold_ids", &fold_ids, "ids"_a.noconvert(), nb::kw_only(), "num_rows"_a);
  nb::class_<Table> table(module, "Table", nb::is_final());
  table
      .def(nb::new_(&make_table), nb::kw_only(), "name"_a, "dim"_a, "num_rows"_a.none(),
           "hash_ids"_a = false, "salt"_a, "initial"_a, "optimizer"_a, "hyperparameters"_a,
           "guards"_a, "admission"_a, "long_vector"_a = nb::none(), "is_dense"_a = false,
           "buckets"_a = std::pair(std::uint32_t{0}, kNumBuckets))
      .def("__len__", &size)
      .def("pull", &pull, "ids"_a.noconvert(), nb::kw_only(), "create"_a)
      .def("push", &push, "ids"_a.noconvert(), "grads"_a.noconvert(), nb::kw_only(), "lr"_a)
      .def("evict", &evict, "ids"_a.noconvert())
      .def("snapshot", &snapshot)
      .def("add_rows", &put_rows, nb::kw_only(), "ids"_a.noconvert(), "rows"_a.noconvert(),
           "state"_a.noconvert() = nb::none(), "shows"_a.noconvert() = nb::none(),
           "clicks"_a.noconvert() = nb::none(), "last_seen"_a.noconvert() = nb::none())
      .def("clear", &clear)
      .def("restore_counts", &restore_counts, nb::kw_only(), "created"_a, "evicted"_a,
           "evicted_unseen"_a = 0, "evicted_score"_a = 0, "evicted_capacity"_a = 0)
      .def_prop_ro("version", &version)
      .def("stats", &stats);
  bind_eviction(table);
  bind_served(table);
}

}  // namespace fleetrec

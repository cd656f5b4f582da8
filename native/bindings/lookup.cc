// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "bindings.h"
#include "fleetrec/table/batch_lookup.h"

using namespace nanobind::literals;

namespace fleetrec {
namespace {

Combiner to_combiner(const std::string& name) {
  if (name == "sum") return Combiner::kSum;
  if (name == "mean") return Combiner::kMean;
  if (name == "sqrtn") return Combiner::kSqrtN;
  if (name == "none") return Combiner::kNone;
  throw std::invalid_argument("no combiner is called '" + name + "'");
}

using FeatureTuple = std::tuple<std::size_t, std::size_t, std::string>;

void make_lookup(BatchLookup* self, std::vector<std::shared_ptr<Table>> tables,
                 const std::vector<FeatureTuple>& features, const std::vector<std::size_t>& frozen,
                 const std::map<std::size_t, std::size_t>& max_lengths) {
  std::vector<LookupFeature> wanted;
  for (const auto& [column, table, combiner] : features) {
    wanted.push_back({column, table, to_combiner(combiner)});
  }
  for (const auto& [feature, max_length] : max_lengths) {
    if (feature >= wanted.size()) throw std::invalid_argument("no such feature");
    wanted[feature].max_length = max_length;
  }
  new (self) BatchLookup(std::move(tables), std::move(wanted), frozen);
}

std::span<const float> span_or_empty(const std::optional<Vector>& vector) {
  return vector ? to_span(*vector) : std::span<const float>();
}

void find(BatchLookup& lookup, const Ids& ids, const Ids& offsets, std::size_t num_samples,
          const std::optional<Vector>& weights, bool training, std::uint32_t now,
          const std::optional<Vector>& labels) {
  if (weights && weights->size() != ids.size()) {
    throw std::invalid_argument("expected one weight per id");
  }
  const nb::gil_scoped_release released;
  lookup.find({to_span(ids), to_span(offsets), num_samples, span_or_empty(weights)},
              {.purpose = training ? Purpose::kTrain : Purpose::kRead,
               .now = now,
               .labels = span_or_empty(labels)});
}

void list_ids(BatchLookup& lookup, const Ids& ids, const Ids& offsets, std::size_t num_samples,
              const std::optional<Vector>& weights, const std::optional<Vector>& labels) {
  const nb::gil_scoped_release released;
  lookup.list({to_span(ids), to_span(offsets), num_samples, span_or_empty(weights)},
              {.purpose = Purpose::kTrain, .labels = span_or_empty(labels)});
}

nb::tuple unique_ids(const BatchLookup& lookup, std::size_t table) {
  Column<std::int64_t> ids(lookup.num_listed(table));
  Column<std::uint32_t> shows(ids.span().size());
  Column<std::uint32_t> clicks(ids.span().size());
  lookup.copy_listed(table, {ids.span(), shows.span(), clicks.span()});
  return nb::make_tuple(ids.release(1), shows.release(1), clicks.release(1));
}

using GivenRows = std::pair<Matrix, Array<const std::uint8_t, nb::ndim<1>>>;

// Python keeps the arrays until the next batch is looked up.
void set_rows(BatchLookup& lookup, const std::vector<GivenRows>& given) {
  std::vector<ListedRows> rows;
  for (const auto& [weights, is_there] : given) {
    rows.push_back({to_span(weights), to_span(is_there)});
  }
  const nb::gil_scoped_release released;
  lookup.set_rows(rows);
}

void pad(const BatchLookup& lookup, std::size_t sequence,
         const Array<float, nb::ndim<3>>& vectors) {
  if (vectors.shape(0) != lookup.num_samples() || vectors.shape(2) != lookup.dim()) {
    throw std::invalid_argument("the vectors must be [samples, length, dim]");
  }
  const nb::gil_scoped_release released;
  lookup.pad(sequence, to_span(vectors), vectors.shape(1));
}

// Rows may lie further apart than they are wide: some columns of a wider matrix, without a copy.
using Rows = nb::ndarray<const float, nb::device::cpu, nb::ndim<2>>;
using SequenceArrays = std::vector<std::optional<Array<const float>>>;

PooledGrad to_pooled(const BatchLookup& lookup, const Rows& rows) {
  if (rows.shape(0) != lookup.num_samples() || rows.shape(1) != lookup.width()) {
    throw std::invalid_argument("the gradient must have the shape of the pooled vectors");
  }
  if (rows.size() == 0) return {{}, lookup.width()};
  const bool is_one = rows.shape(0) == 1;
  if ((rows.shape(1) > 1 && rows.stride(1) != 1) || (!is_one && rows.stride(0) < 0)) {
    throw std::invalid_argument("the numbers of a row of the gradient must lie side by side");
  }
  const std::size_t stride = is_one ? lookup.width() : static_cast<std::size_t>(rows.stride(0));
  return {{rows.data(), (rows.shape(0) - 1) * stride + rows.shape(1)}, stride};
}

SequenceGrad to_sequence(const BatchLookup& lookup, const Array<const float>& array) {
  const bool is_padded = array.ndim() == 3;
  if ((!is_padded && array.ndim() != 2) || array.shape(array.ndim() - 1) != lookup.dim() ||
      (is_padded && array.shape(0) != lookup.num_samples())) {
    throw std::invalid_argument(
        "the gradient of a sequence must be [samples, length, dim] or [ids, dim]");
  }
  return {to_span(array), is_padded ? std::optional(array.shape(1)) : std::nullopt};
}

Gradients to_gradients(const BatchLookup& lookup, const std::optional<Rows>& pooled,
                       const SequenceArrays& sequences) {
  Gradients gradients;
  if (pooled) gradients.pooled = to_pooled(lookup, *pooled);
  for (const auto& array : sequences) {
    gradients.sequences.push_back(array ? std::optional(to_sequence(lookup, *array))
                                        : std::nullopt);
  }
  return gradients;
}

void apply(BatchLookup& lookup, const std::optional<Rows>& pooled, const SequenceArrays& sequences,
           double lr) {
  const Gradients gradients = to_gradients(lookup, pooled, sequences);
  const nb::gil_scoped_release released;
  lookup.apply(gradients, static_cast<float>(lr));
}

std::byte* bytes_of(auto& column) { return std::as_writable_bytes(column.span()).data(); }

nb::tuple impressions(const BatchLookup& lookup, std::size_t table,
                      const std::optional<Vector>& labels) {
  Column<std::int64_t> ids(lookup.num_impressions(table));
  Column<std::uint8_t> clicks(lookup.num_impressions(table));
  const LookupContext context{.purpose = Purpose::kTrain, .labels = span_or_empty(labels)};
  lookup.copy_impressions(table, context, bytes_of(ids), bytes_of(clicks));
  return nb::make_tuple(ids.release(1), clicks.release(1));
}

void apply_keeping_grads(BatchLookup& lookup, const std::optional<Rows>& pooled,
                         const SequenceArrays& sequences, double lr) {
  const Gradients gradients = to_gradients(lookup, pooled, sequences);
  const nb::gil_scoped_release released;
  lookup.apply(gradients, static_cast<float>(lr), Changes::kKeep);
}

nb::list gradients_of(const BatchLookup& lookup) {
  nb::list result;
  for (std::size_t table = 0; table < lookup.num_tables(); ++table) {
    Column<std::int64_t> ids(lookup.num_changes(table));
    Column<float> sums(lookup.num_changes(table), lookup.dim());
    lookup.copy_changes(table, bytes_of(ids), bytes_of(sums));
    result.append(nb::make_tuple(ids.release(1), sums.release(2)));
  }
  return result;
}

nb::list apply_returning_grads(BatchLookup& lookup, const std::optional<Rows>& pooled,
                               const SequenceArrays& sequences, double lr) {
  apply_keeping_grads(lookup, pooled, sequences, lr);
  return gradients_of(lookup);
}

nb::list sum(BatchLookup& lookup, const std::optional<Rows>& pooled,
             const SequenceArrays& sequences) {
  const Gradients gradients = to_gradients(lookup, pooled, sequences);
  {
    const nb::gil_scoped_release released;
    lookup.sum(gradients);
  }
  return gradients_of(lookup);
}

}  // namespace

void bind_lookup(nb::module_& module) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const IdOutOfRange& fault) {
      const nb::tuple place = nb::make_tuple(fault.feature, fault.id);
      PyErr_SetObject(PyExc_IndexError, place.ptr());
    }
  });
  nb::class_<BatchLookup>(module, "BatchLookup", nb::is_final())
      .def("__init__", &make_lookup, "tables"_a, "features"_a, "frozen"_a,
           "max_lengths"_a = std::map<std::size_t, std::size_t>())
      .def("find", &find, "ids"_a.noconvert(), "offsets"_a.noconvert(), "num_samples"_a,
           "weights"_a.noconvert() = nb::none(), nb::kw_only(), "training"_a, "now"_a = 0,
           "labels"_a.noconvert() = nb::none())
      .def("list_ids", &list_ids, "ids"_a.noconvert(), "offsets"_a.noconvert(), "num_samples"_a,
           "weights"_a.noconvert() = nb::none(), nb::kw_only(), "labels"_a.noconvert() = nb::none())
      .def("unique_ids", &unique_ids, "table"_a)
      .def_prop_ro("num_samples", &BatchLookup::num_samples)
      .def("set_rows", &set_rows, "rows"_a.noconvert())
      .def("sum", &sum, "pooled"_a.noconvert().none(), "sequences"_a.noconvert() = SequenceArrays())
      .def(
          "pool",
          [](const BatchLookup& lookup, const Array<float, nb::ndim<2>>& vectors) {
            const nb::gil_scoped_release released;
            lookup.pool(to_span(vectors));
          },
          "vectors"_a.noconvert())
      .def(
          "lengths",
          [](const BatchLookup& lookup, std::size_t sequence) {
            return to_column<std::int64_t>(lookup.lengths(sequence)).release(1);
          },
          "sequence"_a)
      .def("pad", &pad, "sequence"_a, "vectors"_a.noconvert())
      .def(
          "gather",
          [](const BatchLookup& lookup, std::size_t sequence,
             const Array<float, nb::ndim<2>>& vectors) {
            const nb::gil_scoped_release released;
            lookup.gather(sequence, to_span(vectors));
          },
          "sequence"_a, "vectors"_a.noconvert())
      .def("apply", &apply, "pooled"_a.noconvert().none(),
           "sequences"_a.noconvert() = SequenceArrays(), nb::kw_only(), "lr"_a)
      .def("apply_keeping_grads", &apply_keeping_grads, "pooled"_a.noconvert().none(),
           "sequences"_a.noconvert() = SequenceArrays(), nb::kw_only(), "lr"_a)
      .def("apply_returning_grads", &apply_returning_grads, "pooled"_a.noconvert().none(),
           "sequences"_a.noconvert() = SequenceArrays(), nb::kw_only(), "lr"_a)
      .def("impressions", &impressions, "table"_a, nb::kw_only(),
           "labels"_a.noconvert() = nb::none());
}

}  // namespace fleetrec

// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>

#include "arrays.h"
#include "bindings.h"
#include "fleetrec/batch/count_predictions.h"
#include "fleetrec/batch/select_rows.h"
#include "fleetrec/batch/write_examples.h"

using namespace nanobind::literals;

namespace fleetrec {
namespace {

using BlockTuple = std::tuple<Ids, Ids, std::optional<Vector>, std::size_t>;

nb::tuple select_rows(const std::vector<BlockTuple>& blocks, std::size_t num_columns,
                      const Ids& rows) {
  std::vector<IdBlock> parts;
  for (const auto& [ids, offsets, weights, num_samples] : blocks) {
    parts.push_back({.ids = to_span(ids),
                     .offsets = to_span(offsets),
                     .weights = weights ? to_span(*weights) : std::span<const float>(),
                     .has_weights = weights.has_value(),
                     .num_samples = num_samples});
  }
  std::optional<Column<std::int64_t>> ids;
  std::optional<Column<std::int64_t>> offsets;
  std::optional<Column<float>> weights;
  {
    const nb::gil_scoped_release released;
    const RowSelection selection(std::move(parts), num_columns, to_span(rows));
    ids.emplace(selection.num_ids());
    selection.copy_ids(ids->span());
    offsets.emplace(selection.offsets().size());
    std::ranges::copy(selection.offsets(), offsets->span().begin());
    if (selection.has_weights()) {
      weights.emplace(selection.num_ids());
      selection.copy_weights(weights->span());
    }
  }
  return nb::make_tuple(ids->release(1), offsets->release(1),
                        weights ? weights->release(1) : nb::none());
}

using Counters = Array<std::int64_t, nb::ndim<1>>;
using Sums = Array<double, nb::ndim<1>>;

void count(const Vector& predictions, const Vector& labels, const Counters& positives,
           const Counters& negatives, const Sums& sums) {
  const nb::gil_scoped_release released;
  count_predictions(to_span(predictions), to_span(labels),
                    {to_span(positives), to_span(negatives), to_span(sums)});
}

using DenseTuple = std::tuple<std::string, Matrix>;

nb::bytes examples(const std::vector<std::string>& sparse, const Ids& ids, const Ids& offsets,
                   const std::vector<DenseTuple>& dense, std::size_t num_samples) {
  SampleColumns samples{.num_samples = num_samples,
                        .sparse = {sparse.begin(), sparse.end()},
                        .ids = to_span(ids),
                        .offsets = to_span(offsets),
                        .dense = {}};
  for (const auto& [name, values] : dense) {
    samples.dense.push_back({name, to_span(values), values.shape(1)});
  }
  std::string records;
  {
    const nb::gil_scoped_release released;
    records = write_examples(samples);
  }
  return nb::bytes(records.data(), records.size());
}

}  // namespace

void bind_batch(nb::module_& module) {
  module.def("write_examples", &examples, "sparse"_a, "ids"_a.noconvert(), "offsets"_a.noconvert(),
             "dense"_a, "num_samples"_a);
  module.def("count_predictions", &count, "predictions"_a.noconvert(), "labels"_a.noconvert(),
             "positives"_a.noconvert(), "negatives"_a.noconvert(), "sums"_a.noconvert());
  module.def("select_rows", &select_rows, "blocks"_a, "num_columns"_a, "rows"_a.noconvert());
}

}  // namespace fleetrec

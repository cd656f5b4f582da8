// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
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

std::byte* bytes_of(auto& column) { return std::as_writable_bytes(column.span()).data(); }

nb::tuple sights(const BatchLookup& lookup, std::size_t table,
                 const std::optional<Vector>& labels) {
  Column<std::int64_t> ids(lookup.num_sights(table));
  Column<std::uint8_t> clicks(lookup.num_sights(table));
  const Occasion occasion{.purpose = Purpose::kTrain,
                          .labels = labels ? to_span(*labels) : std::span<const float>()};
  lookup.copy_sights(table, occasion, bytes_of(ids), bytes_of(clicks));
  return nb::make_tuple(ids.release(1), clicks.release(1));
}

void apply_and_keep(BatchLookup& lookup, const Matrix& grads, double lr) {
  const nb::gil_scoped_release released;
  lookup.apply(to_span(grads), static_cast<float>(lr), Changes::kKeep);
}

nb::list apply_and_tell(BatchLookup& lookup, const Matrix& grads, double lr) {
  apply_and_keep(lookup, grads, lr);
  nb::list told;
  for (std::size_t table = 0; table < lookup.num_tables(); ++table) {
    Column<std::int64_t> ids(lookup.num_changes(table));
    Column<float> sums(lookup.num_changes(table), lookup.dim());
    lookup.copy_changes(table, bytes_of(ids), bytes_of(sums));
    told.append(nb::make_tuple(ids.release(1), sums.release(2)));
  }
  return told;
}

}  // namespace

void bind_lookup(nb::module_& module) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const IdOutOfRange& fault) {
      const nb::tuple place = nb::make_tuple(fault.column, fault.id);
      PyErr_SetObject(PyExc_IndexError, place.ptr());
    }
  });
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
      .def("apply_and_keep", &apply_and_keep, "grads"_a.noconvert(), nb::kw_only(), "lr"_a)
      .def("apply_and_tell", &apply_and_tell, "grads"_a.noconvert(), nb::kw_only(), "lr"_a)
      .def("sights", &sights, "table"_a, nb::kw_only(), "labels"_a.noconvert() = nb::none());
}

}  // namespace fleetrec

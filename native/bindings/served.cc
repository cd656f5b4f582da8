// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/served.h"

#include "arrays.h"
#include "bindings.h"

using namespace nanobind::literals;

namespace fleetrec {
namespace {

using Counts = Array<const std::uint32_t, nb::ndim<1>>;

nb::tuple read(Table& table, const Ids& ids, bool as_new) {
  Column<float> rows(ids.size(), table.layout().dim);
  Column<std::uint8_t> is_there(ids.size());
  {
    const nb::gil_scoped_release released;
    read_rows(table, to_span(ids), as_new ? Missing::kAsNew : Missing::kAbsent, rows.span(),
              is_there.span());
  }
  return nb::make_tuple(rows.release(2), is_there.release(1));
}

void count(Table& table, const Ids& ids, const Counts& shows, const Counts& clicks,
           std::uint32_t now) {
  const nb::gil_scoped_release released;
  count_impressions(table, {to_span(ids), to_span(shows), to_span(clicks), now});
}

nb::object buckets_of(const Table& table, const Ids& ids) {
  Column<std::uint16_t> buckets(ids.size());
  std::ranges::transform(to_span(ids), buckets.span().begin(), [&](std::int64_t id) {
    return static_cast<std::uint16_t>(table.place(static_cast<std::uint64_t>(id)).bucket);
  });
  return buckets.release(1);
}

}  // namespace

void bind_served(nb::class_<Table>& table) {
  table.def("read", &read, "ids"_a.noconvert(), nb::kw_only(), "as_new"_a)
      .def("count_impressions", &count, "ids"_a.noconvert(), "shows"_a.noconvert(),
           "clicks"_a.noconvert(), nb::kw_only(), "now"_a)
      .def(
          "write",
          [](Table& self, const Ids& ids, const Matrix& rows) {
            const nb::gil_scoped_release released;
            write_rows(self, to_span(ids), to_span(rows));
          },
          "ids"_a.noconvert(), "rows"_a.noconvert())
      .def(
          "remove",
          [](Table& self, const Ids& ids) {
            const nb::gil_scoped_release released;
            return remove_rows(self, to_span(ids));
          },
          "ids"_a.noconvert())
      .def(
          "check_held",
          [](const Table& self, const Ids& ids) {
            const nb::gil_scoped_release released;
            check_held(self, to_span(ids));
          },
          "ids"_a.noconvert())
      .def("buckets_of", &buckets_of, "ids"_a.noconvert());
}

}  // namespace fleetrec

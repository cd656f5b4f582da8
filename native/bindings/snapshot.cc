// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/snapshot/snapshot.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace fleetrec {
namespace {

// A cut that keeps its table alive.
struct TableCut {
  explicit TableCut(std::shared_ptr<Table> cut_table) : table(std::move(cut_table)), cut(*table) {}

  std::shared_ptr<Table> table;
  Cut cut;
};

SnapshotKind to_kind(const std::string& name) {
  if (name == "base") return SnapshotKind::kBase;
  if (name == "delta") return SnapshotKind::kDelta;
  throw std::invalid_argument("expected kind base or delta, got '" + name + "'");
}

nb::dict to_dict(const SnapshotStats& stats) {
  nb::dict figures;
  figures["rows"] = stats.counts.rows;
  figures["tombstones"] = stats.counts.tombstones;
  figures["candidates"] = stats.counts.candidates;
  figures["bytes"] = stats.num_bytes;
  figures["version"] = stats.version;
  figures["fingerprint"] = stats.fingerprint;
  figures["lsn"] = stats.lsn;
  return figures;
}

nb::dict write(TableCut& self, const std::filesystem::path& directory, const std::string& kind,
               std::uint32_t num_shards, std::uint64_t lsn, bool sync) {
  const SnapshotTarget target{directory, to_kind(kind), num_shards, lsn, sync};
  const auto stats = [&] {
    const nb::gil_scoped_release released;
    return write_snapshot(*self.table, self.cut, target);
  }();
  return to_dict(stats);
}

nb::dict read(Table& table, const std::vector<std::filesystem::path>& directories) {
  const auto stats = [&] {
    const nb::gil_scoped_release released;
    return read_snapshot(table, directories);
  }();
  return to_dict(stats);
}

}  // namespace

void bind_snapshot(nb::module_& module) {
  nb::exception<FormatFault>(module, "SnapshotError", PyExc_ValueError);
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const WriteFault& fault) {
      const nb::object error = nb::borrow(PyExc_OSError)(
          fault.code(), nb::str(std::strerror(fault.code())), nb::str(fault.path().c_str()));
      PyErr_SetObject(reinterpret_cast<PyObject*>(error.type().ptr()), error.ptr());
    }
  });
  nb::class_<TableCut>(module, "Cut", nb::is_final())
      .def(nb::init<std::shared_ptr<Table>>(), "table"_a.noconvert(),
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("version", [](const TableCut& self) { return self.cut.version(); })
      .def("write", &write, "directory"_a, nb::kw_only(), "kind"_a, "num_shards"_a = 1, "lsn"_a = 0,
           "sync"_a = false)
      .def("commit", [](const TableCut& self) {
        const nb::gil_scoped_release released;
        commit_cut(*self.table, self.cut);
      });
  module.def("read_snapshot", &read, "table"_a, "directories"_a);
}

}  // namespace fleetrec

// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/snapshot/snapshot.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "bindings.h"
#include "fleetrec/snapshot/block_reader.h"

using namespace nanobind::literals;

namespace fleetrec {
namespace {

// A cut that keeps its table alive.
struct TableCut {
  TableCut(std::shared_ptr<Table> cut_table, std::uint32_t least)
      : table(std::move(cut_table)), cut(*table, least) {}

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
  figures["crcs"] = stats.crcs;
  return figures;
}

nb::dict to_dict(const CutStats& stats) {
  nb::dict figures;
  figures["rows"] = stats.num_rows;
  figures["candidates"] = stats.num_candidates;
  add_counts(figures, stats.counts);
  return figures;
}

using ShardRange = std::optional<std::pair<std::uint32_t, std::uint32_t>>;

nb::dict write(TableCut& self, const std::filesystem::path& directory, const std::string& kind,
               std::uint32_t num_shards, std::uint64_t lsn, bool sync, const ShardRange& shards,
               std::optional<std::size_t> num_threads) {
  SnapshotTarget target{directory, to_kind(kind), num_shards, lsn, sync};
  if (num_threads == 0) throw std::invalid_argument("num_threads must be at least 1");
  target.num_threads = num_threads.value_or(0);
  if (shards) {
    target.first_shard = shards->first;
    target.last_shard = shards->second;
  }
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

template <typename T>
Column<T> copy_column(const std::byte* from, std::size_t num_rows, std::size_t num_columns = 1) {
  Column<T> column(num_rows, num_columns);
  std::ranges::copy(std::span(from, column.span().size_bytes()),
                    std::as_writable_bytes(column.span()).begin());
  return column;
}

nb::dict row_columns(const Block& block, const ShardHeader& header) {
  const std::size_t size = block.num_entries;
  const RowBlock from(block, header.dim);
  nb::dict columns;
  columns["ids"] = copy_column<std::uint64_t>(from.ids, size).release(1);
  columns["last_seen"] = copy_column<std::uint32_t>(from.last_seen, size).release(1);
  columns["shows"] = copy_column<float>(from.shows, size).release(1);
  columns["clicks"] = copy_column<float>(from.clicks, size).release(1);
  columns["rows"] = copy_column<float>(from.weights, size, header.dim).release(2);
  columns["state"] = copy_column<float>(from.states, size, header.state_size).release(2);
  return columns;
}

nb::dict candidate_columns(const Block& block) {
  const std::size_t size = block.num_entries;
  const std::byte* from = block.content.data();
  nb::dict columns;
  columns["ids"] = copy_column<std::uint64_t>(from, size).release(1);
  columns["last_seen"] = copy_column<std::uint32_t>(from + 8 * size, size).release(1);
  columns["shows"] = copy_column<std::uint16_t>(from + 12 * size, size).release(1);
  columns["clicks"] = copy_column<std::uint16_t>(from + 14 * size, size).release(1);
  return columns;
}

nb::object next_block(BlockReader& reader) {
  const Block* block = [&] {
    const nb::gil_scoped_release released;
    return reader.next();
  }();
  if (block == nullptr) return nb::none();
  if (block->kind == BlockKind::kRows) {
    return nb::make_tuple("rows", row_columns(*block, reader.header()));
  }
  if (block->kind == BlockKind::kCandidates) {
    return nb::make_tuple("candidates", candidate_columns(*block));
  }
  nb::dict columns;
  columns["ids"] = copy_column<std::uint64_t>(block->content.data(), block->num_entries).release(1);
  return nb::make_tuple("tombstones", columns);
}

nb::dict header(const BlockReader& reader) {
  const ShardHeader& found = reader.header();
  nb::dict named;
  named["kind"] = found.kind == SnapshotKind::kBase ? "base" : "delta";
  named["shard"] = found.shard;
  named["num_shards"] = found.num_shards;
  named["dim"] = found.dim;
  named["num_rows"] =
      found.id_limit == kAnyId ? std::nullopt : std::optional<std::uint64_t>(found.id_limit);
  named["version"] = found.version;
  named["parent_version"] = found.parent.version;
  named["parent_fingerprint"] = found.parent.fingerprint;
  named["table"] = found.table;
  named["optimizer"] = found.optimizer;
  return named;
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
      .def(nb::init<std::shared_ptr<Table>, std::uint32_t>(), "table"_a.noconvert(), nb::kw_only(),
           "least"_a = 0, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("version", [](const TableCut& self) { return self.cut.version(); })
      .def("write", &write, "directory"_a, nb::kw_only(), "kind"_a, "num_shards"_a = 1, "lsn"_a = 0,
           "sync"_a = false, "shards"_a = nb::none(), "num_threads"_a = nb::none())
      .def_prop_ro("stats", [](const TableCut& self) { return to_dict(self.cut.stats()); })
      .def(
          "release", [](TableCut& self) { self.cut.release(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "commit",
          [](TableCut& self, std::optional<std::uint64_t> fingerprint) {
            const nb::gil_scoped_release released;
            commit_cut(*self.table, self.cut, fingerprint);
          },
          nb::kw_only(), "fingerprint"_a = nb::none());
  nb::class_<BlockReader>(module, "ShardFile", nb::is_final())
      .def(nb::init<const std::filesystem::path&>(), "path"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("header", &header)
      .def_prop_ro("crc", &BlockReader::crc)
      .def("next_block", &next_block);
  module.def("read_snapshot", &read, "table"_a, "directories"_a);
}

}  // namespace fleetrec

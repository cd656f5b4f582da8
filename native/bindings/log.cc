// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/snapshot/log.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace fleetrec {
namespace {

template <typename T, typename... Shape>
using Array = nb::ndarray<T, nb::device::cpu, nb::c_contig, Shape...>;
using Ids = Array<const std::int64_t, nb::ndim<1>>;
using Clicks = Array<const std::uint8_t, nb::ndim<1>>;
using Matrix = Array<const float, nb::ndim<2>>;

// Operations that point into arrays, and the arrays.
class PyRecord {
 public:
  void add_sights(std::uint32_t table, const Ids& ids, const Clicks& clicks, std::uint32_t now) {
    if (clicks.size() != ids.size()) throw std::invalid_argument("expected one click per id");
    for (std::size_t i = 0; i < clicks.size(); ++i) {
      if (clicks.data()[i] > 1) throw std::invalid_argument("expected clicks of 0 or 1");
    }
    Operation operation = with_ids(OperationKind::kSights, table, ids);
    operation.now = now;
    operation.payload = reinterpret_cast<const std::byte*>(clicks.data());
    keep(operation, 0);
    clicks_.push_back(clicks);
  }

  void add_push(std::uint32_t table, const Ids& ids, const Matrix& grads, double lr) {
    if (grads.shape(0) != ids.size()) throw std::invalid_argument("expected one gradient per id");
    Operation operation = with_ids(OperationKind::kPush, table, ids);
    operation.lr = static_cast<float>(lr);
    operation.payload = reinterpret_cast<const std::byte*>(grads.data());
    keep(operation, grads.shape(1));
    grads_.push_back(grads);
  }

  void add_eviction(std::uint32_t table, const Ids& ids) {
    keep(with_ids(OperationKind::kEviction, table, ids), 0);
  }

  std::uint64_t append_to(LogWriter& log, const Request& request) const {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      const std::uint32_t table = operations_[i].table;
      if (operations_[i].kind == OperationKind::kPush && table < log.tables().size() &&
          widths_[i] != log.tables()[table].dim) {
        throw std::invalid_argument("a gradient of width " + std::to_string(widths_[i]) +
                                    " for table " + log.tables()[table].name + " of width " +
                                    std::to_string(log.tables()[table].dim));
      }
    }
    return log.append({.lsn = 0, .request = request, .operations = operations_});
  }

 private:
  Operation with_ids(OperationKind kind, std::uint32_t table, const Ids& ids) {
    if (ids.size() > std::numeric_limits<std::uint32_t>::max()) {
      throw std::invalid_argument("an operation holds at most 2^32 ids");
    }
    ids_.push_back(ids);
    Operation operation{};
    operation.kind = kind;
    operation.table = table;
    operation.num_entries = static_cast<std::uint32_t>(ids.size());
    operation.ids = reinterpret_cast<const std::byte*>(ids.data());
    return operation;
  }

  void keep(const Operation& operation, std::size_t width) {
    operations_.push_back(operation);
    widths_.push_back(width);
  }

  std::vector<Operation> operations_;
  std::vector<std::size_t> widths_;  // of gradients
  std::vector<Ids> ids_;
  std::vector<Clicks> clicks_;
  std::vector<Matrix> grads_;
};

void make_log(LogWriter* self, const std::filesystem::path& path,
              const std::vector<std::shared_ptr<Table>>& tables, std::uint64_t first_lsn) {
  LogHeader header{first_lsn, {}};
  for (const auto& table : tables) {
    header.tables.push_back(
        {table->options().name, static_cast<std::uint32_t>(table->layout().dim)});
  }
  const nb::gil_scoped_release released;
  new (self) LogWriter(path, std::move(header));
}

std::uint64_t append(LogWriter& log, const PyRecord& record, std::uint32_t worker,
                     std::uint32_t incarnation, std::uint64_t sequence) {
  const nb::gil_scoped_release released;
  return record.append_to(log, {worker, incarnation, sequence});
}

Durability to_durability(const std::string& name) {
  if (name == "process") return Durability::kProcess;
  if (name == "disk") return Durability::kDisk;
  throw std::invalid_argument("expected level process or disk, got '" + name + "'");
}

TornTail to_torn_tail(const std::string& name) {
  if (name == "keep") return TornTail::kKeep;
  if (name == "truncate") return TornTail::kTruncate;
  throw std::invalid_argument("expected torn_tail keep or truncate, got '" + name + "'");
}

nb::dict replay(const std::vector<std::shared_ptr<Table>>& tables,
                const std::vector<std::filesystem::path>& segments, std::uint64_t after_lsn,
                const std::string& torn_tail) {
  const ReplayStats stats = [&] {
    const TornTail wanted = to_torn_tail(torn_tail);
    const nb::gil_scoped_release released;
    return replay_log(tables, segments, after_lsn, wanted);
  }();
  nb::dict requests;
  for (const Request& request : stats.last_requests) {
    requests[nb::int_(request.worker)] = nb::make_tuple(request.incarnation, request.sequence);
  }
  nb::dict told;
  told["last_lsn"] = stats.last_lsn;
  told["applied"] = stats.num_applied;
  told["torn"] = nb::none();
  if (stats.torn) {
    told["torn"] = nb::make_tuple(stats.torn->path, stats.torn->offset, stats.torn->reason);
  }
  told["requests"] = requests;
  return told;
}

}  // namespace

void bind_log(nb::module_& module) {
  nb::class_<PyRecord>(module, "LogRecord", nb::is_final())
      .def(nb::init<>())
      .def("add_sights", &PyRecord::add_sights, "table"_a, "ids"_a.noconvert(),
           "clicks"_a.noconvert(), nb::kw_only(), "now"_a)
      .def("add_push", &PyRecord::add_push, "table"_a, "ids"_a.noconvert(), "grads"_a.noconvert(),
           nb::kw_only(), "lr"_a)
      .def("add_eviction", &PyRecord::add_eviction, "table"_a, "ids"_a.noconvert());
  nb::class_<LogWriter>(module, "TableLog", nb::is_final())
      .def("__init__", &make_log, "path"_a, "tables"_a, nb::kw_only(), "first_lsn"_a = 1)
      .def_prop_ro("last_lsn", &LogWriter::last_lsn)
      .def("append", &append, "record"_a, nb::kw_only(), "worker"_a = 0, "incarnation"_a = 0,
           "sequence"_a = 0)
      .def(
          "commit",
          [](LogWriter& log, const std::string& level) {
            const Durability wanted = to_durability(level);
            const nb::gil_scoped_release released;
            return log.commit(wanted);
          },
          "level"_a);
  module.def("replay_log", &replay, "tables"_a, "segments"_a, nb::kw_only(), "after_lsn"_a = 0,
             "torn_tail"_a = "keep");
}

}  // namespace fleetrec

// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/snapshot/log.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>

#include "arrays.h"
#include "bindings.h"
#include "fleetrec/table/batch_lookup.h"

using namespace nanobind::literals;

namespace fleetrec {
namespace {

using Clicks = Array<const std::uint8_t, nb::ndim<1>>;

// Operations that point into arrays and lookups, and the arrays; Python keeps the lookups.
class PyRecord {
 public:
  void add_impressions(std::uint32_t table, const Ids& ids, const Clicks& clicks,
                       std::uint32_t now) {
    if (clicks.size() != ids.size()) throw std::invalid_argument("expected one click per id");
    for (std::size_t i = 0; i < clicks.size(); ++i) {
      if (clicks.data()[i] > 1) throw std::invalid_argument("expected clicks of 0 or 1");
    }
    Operation operation = with_ids(OperationKind::kImpressions, table, ids);
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

  void add_lookup(const BatchLookup& lookup, const std::vector<std::uint32_t>& tables,
                  std::uint32_t now, double lr, const std::optional<Vector>& labels) {
    if (tables.size() != lookup.num_tables()) {
      throw std::invalid_argument("expected one number per table of the lookup");
    }
    static_cast<void>(lookup.num_changes(0));  // throws before the record has changed
    LookupContext context{.purpose = Purpose::kTrain, .now = now};
    if (labels) {
      labels_.push_back(*labels);
      context.labels = to_span(*labels);
    }
    for (std::size_t t = 0; t < tables.size(); ++t) {
      Operation operation =
          with_entries(OperationKind::kImpressions, tables[t], lookup.num_impressions(t));
      operation.now = now;
      operation.fill = [&lookup, t, context](std::byte* ids, std::byte* clicks) {
        lookup.copy_impressions(t, context, ids, clicks);
      };
      keep(operation, 0);
    }
    for (std::size_t t = 0; t < tables.size(); ++t) {
      Operation operation = with_entries(OperationKind::kPush, tables[t], lookup.num_changes(t));
      operation.lr = static_cast<float>(lr);
      operation.pieces = lookup.view_changes(t);
      keep(operation, lookup.dim());
    }
    lookups_.push_back({&lookup, lookup.generation()});
  }

  std::uint64_t append_to(LogWriter& log, const Request& request) const {
    for (const auto& [lookup, generation] : lookups_) {
      if (lookup->generation() != generation) {
        throw std::logic_error(
            "a lookup of the record has another batch now; append the record before");
      }
    }
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
  static Operation with_entries(OperationKind kind, std::uint32_t table, std::size_t num_entries) {
    if (num_entries > std::numeric_limits<std::uint32_t>::max()) {
      throw std::invalid_argument("an operation holds at most 2^32 ids");
    }
    Operation operation{};
    operation.kind = kind;
    operation.table = table;
    operation.num_entries = static_cast<std::uint32_t>(num_entries);
    return operation;
  }

  Operation with_ids(OperationKind kind, std::uint32_t table, const Ids& ids) {
    Operation operation = with_entries(kind, table, ids.size());
    operation.ids = reinterpret_cast<const std::byte*>(ids.data());
    ids_.push_back(ids);
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
  std::vector<Vector> labels_;
  std::vector<std::pair<const BatchLookup*, std::uint64_t>> lookups_;  // and their generation
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
  nb::dict result;
  result["last_lsn"] = stats.last_lsn;
  result["applied"] = stats.num_applied;
  result["torn"] = nb::none();
  if (stats.torn) {
    result["torn"] = nb::make_tuple(stats.torn->path, stats.torn->offset, stats.torn->reason);
  }
  result["requests"] = requests;
  return result;
}

}  // namespace

void bind_log(nb::module_& module) {
  nb::class_<PyRecord>(module, "LogRecord", nb::is_final())
      .def(nb::init<>())
      .def("add_impressions", &PyRecord::add_impressions, "table"_a, "ids"_a.noconvert(),
           "clicks"_a.noconvert(), nb::kw_only(), "now"_a)
      .def("add_push", &PyRecord::add_push, "table"_a, "ids"_a.noconvert(), "grads"_a.noconvert(),
           nb::kw_only(), "lr"_a)
      .def("add_lookup", &PyRecord::add_lookup, nb::keep_alive<1, 2>(), "lookup"_a, "tables"_a,
           nb::kw_only(), "now"_a, "lr"_a, "labels"_a.noconvert() = nb::none())
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
  module.def(
      "drop_segments",
      [](const std::vector<std::filesystem::path>& segments, std::uint64_t lsn) {
        const nb::gil_scoped_release released;
        return drop_segments(segments, lsn);
      },
      "segments"_a, "lsn"_a);
}

}  // namespace fleetrec

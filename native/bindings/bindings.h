// SPDX-License-Identifier: Apache-2.0
// One function per native header; module.cc calls them all.
#pragma once

#include <nanobind/nanobind.h>

namespace fleetrec {

class Table;
struct TableCounts;

// Adds what happened to a table to its figures.
void add_counts(nanobind::dict& figures, const TableCounts& counts);

void bind_batch(nanobind::module_& module);
void bind_cells(nanobind::module_& module);
void bind_log(nanobind::module_& module);
void bind_lookup(nanobind::module_& module);
void bind_nn(nanobind::module_& module);
void bind_parse(nanobind::module_& module);
void bind_records(nanobind::module_& module);
void bind_served(nanobind::class_<Table>& table);
void bind_snapshot(nanobind::module_& module);
void bind_table(nanobind::module_& module);

}  // namespace fleetrec

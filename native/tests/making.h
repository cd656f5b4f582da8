// SPDX-License-Identifier: Apache-2.0
// What several tests make.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "fleetrec/parallel.h"
#include "fleetrec/table/batch_lookup.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace fleetrec::testing {

using Random = std::mt19937_64;

inline void use_threads(int num_threads) {
#if defined(FLEETREC_STD_THREADS)
  num_std_threads = static_cast<std::size_t>(num_threads);
#elif defined(_OPENMP)
  omp_set_num_threads(num_threads);
#endif
}

inline std::vector<float> normal_numbers(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> made(count);
  for (float& number : made) number = normal(engine);
  return made;
}

struct TableChoice {
  std::size_t dim = 4;
  std::string optimizer = "adagrad";
  std::optional<std::uint64_t> num_rows = std::nullopt;
  Admission admission = {};
  std::uint64_t salt = 7;
  Guards guards = {};
  bool folds_ids = false;
  std::optional<LongVector> long_vector = std::nullopt;
};

inline std::shared_ptr<Table> make_table(const TableChoice& choice = {}) {
  TableOptions options{
      .name = "t",
      .dim = choice.dim,
      .num_rows = choice.num_rows,
      .folds_ids = choice.folds_ids,
      .initializer = {InitialKind::kUniform, 0.0, 0.5, choice.salt},
      .admission = choice.admission,
      .long_vector = choice.long_vector,
  };
  return std::make_shared<Table>(std::move(options),
                                 GuardedOptimizer(choice.optimizer, {}, choice.guards));
}

// Owns what JaggedIds views. Lists are added column by column.
struct Lists {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> offsets = {0};
  std::size_t num_samples = 0;
  std::vector<float> weights;  // none: all are 1

  void add(const std::vector<std::int64_t>& list) {
    ids.insert(ids.end(), list.begin(), list.end());
    offsets.push_back(static_cast<std::int64_t>(ids.size()));
  }

  JaggedIds view() const { return {ids, offsets, num_samples, weights}; }
};

inline Lists random_lists(Random& random, std::size_t num_columns, std::size_t num_samples,
                          std::uint64_t num_ids, std::size_t max_length) {
  Lists lists;
  lists.num_samples = num_samples;
  for (std::size_t k = 0; k < num_columns * num_samples; ++k) {
    std::vector<std::int64_t> list(random() % (max_length + 1));
    for (std::int64_t& id : list) id = static_cast<std::int64_t>(random() % num_ids);
    lists.add(list);
  }
  return lists;
}

inline std::vector<float> random_floats(Random& random, std::size_t size) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(size);
  for (float& value : values) value = uniform(random);
  return values;
}

inline std::vector<float> pooled(const BatchLookup& lookup, std::size_t num_samples) {
  std::vector<float> vectors(num_samples * lookup.width());
  lookup.pool(vectors);
  return vectors;
}

inline Row row_of(const Table& table, std::uint64_t id) { return table.find(id, table.place(id)); }

}  // namespace fleetrec::testing

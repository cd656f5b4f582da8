// SPDX-License-Identifier: Apache-2.0
// All lookups of one batch in tables of one width: find rows, pool them, give gradients back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fleetrec/table/table.h"

namespace fleetrec {

enum class Combiner { kSum, kMean, kSqrtN };

// Column `column` of the ids goes through table number `table` into the next vector of a sample.
struct LookupFeature {
  std::size_t column;
  std::size_t table;
  Combiner combiner;
};

// Lists of ids, column by column: sample i of column c owns ids[offsets[k]] up to ids[offsets[k+1]]
// with k = c * num_samples + i.
struct JaggedIds {
  std::span<const std::int64_t> ids;
  std::span<const std::int64_t> offsets;
  std::size_t num_samples;
};

enum class Purpose {
  kRead,    // rows as they are; nothing is created, no gradient comes
  kUpdate,  // rows that exist, for a gradient
  kTrain,   // the same, and ids are counted and may get rows
};

// What a lookup is for, and what training knows beyond the ids.
struct Occasion {
  Purpose purpose = Purpose::kRead;
  std::uint32_t now = 0;               // event time, in seconds
  std::span<const float> labels = {};  // by sample, above 0.5 counts as click; empty: no clicks
};

// What becomes of the summed gradients of `apply`.
enum class Changes { kForget, kKeep };

// Rows that changed, and the summed gradient of each.
struct TableChanges {
  std::vector<std::uint64_t> ids;
  std::vector<float> grads;
};

struct IdOutOfRange {
  std::size_t column;
  std::uint64_t id;
};

// Keeps its memory from batch to batch. Rows are found by partition: ids whose bucket falls
// together are one thread's work, in the order in which they stand in the batch. So the outcome
// does not depend on the number of threads, and no row needs a lock.
class BatchLookup {
 public:
  // Tables numbered in `frozen` are read and never changed by `apply`.
  BatchLookup(std::vector<std::shared_ptr<Table>> tables, std::vector<LookupFeature> features,
              const std::vector<std::size_t>& frozen = {});

  std::size_t num_tables() const { return tables_.size(); }
  std::size_t dim() const { return dim_; }
  std::size_t width() const { return features_.size() * dim_; }

  // Finds the rows. Throws IdOutOfRange before anything has changed, here or in a table.
  void find(const JaggedIds& batch, const Occasion& occasion);

  // Writes the pooled vectors, num_samples rows of width(). Like apply, throws std::logic_error if
  // a table lost rows since find: they are addresses by now.
  void pool(std::span<float> vectors) const;

  // Sums the gradient of the vectors per row and applies the optimizer, once per row.
  void apply(std::span<const float> grads, float lr, Changes changes = Changes::kForget);

  // What `find` counted in one table, for a log: u64 ids and u8 clicks, in an order that gives the
  // same rows if it is counted again. `occasion` is that of the find.
  std::size_t num_sights(std::size_t table) const;
  void copy_sights(std::size_t table, const Occasion& occasion, std::byte* ids,
                   std::byte* clicks) const;

  // What the last `apply` did to one table: u64 ids, and `dim` floats of gradient for each. Throws
  // std::logic_error if it was not kept.
  std::size_t num_changes(std::size_t table) const;
  void copy_changes(std::size_t table, std::byte* ids, std::byte* grads) const;

  // Rises when the sights or the changes become others.
  std::uint64_t generation() const { return generation_; }

 private:
  struct Item {
    std::uint64_t id;
    Place place;
    std::uint32_t position;  // in weights_
    std::uint32_t bag;       // number of the vector: sample * features + feature
  };
  // A stretch of samples of one feature.
  struct Stretch {
    std::size_t feature;
    std::size_t first;
    std::size_t last;
  };
  struct Partition {
    std::size_t table;
    bool is_frozen = false;
    std::size_t first;  // in items_
    std::size_t last;
    std::vector<Row> rows;  // the different rows that were found
    std::vector<std::uint32_t>
        begin;  // by row, where its bags start in `bags`; one more at the end
    std::vector<std::uint32_t> bags;
    std::vector<std::uint32_t> row_of;  // by item; scratch
    TableChanges changes;               // if they are kept
  };

  static constexpr std::uint32_t kNoRow = 0xFFFFFFFF;

  void check_batch(const JaggedIds& batch, const Occasion& occasion) const;
  void count(const JaggedIds& batch);
  void scatter(const JaggedIds& batch);
  void resolve(Partition& partition, const Occasion& occasion);
  Row look_up(Table& table, const Item& item, const Occasion& occasion) const;
  bool is_click(const Item& item, const Occasion& occasion) const;
  void apply(Partition& partition, std::span<const float> grads, float lr, bool keep_changes);
  std::uint64_t num_removals() const;
  void check_rows_are_there() const;
  std::span<const Partition> partitions_of(std::size_t table) const;
  void group(Partition& partition) const;
  void pool_samples(std::size_t first, std::size_t last, float* vectors) const;
  float scale_of(const LookupFeature& feature, std::size_t num_ids) const;
  float scale_of_bag(std::size_t bag) const;
  static std::uint32_t number_of(std::vector<Row>& rows, const Row& row);

  std::vector<std::shared_ptr<Table>> tables_;
  std::vector<LookupFeature> features_;
  std::size_t dim_;
  std::size_t num_samples_ = 0;
  bool is_plain_ = true;               // all combiners are sums
  std::uint64_t removals_before_ = 0;  // when the rows were found
  std::uint64_t generation_ = 0;
  bool has_changes_ = false;
  std::vector<Stretch> stretches_;
  std::vector<std::uint32_t> counts_;  // by stretch and partition
  std::vector<Item> items_;
  std::vector<const float*> weights_;  // of all ids, feature by feature; nullptr: no row
  std::vector<std::size_t> begins_;    // by feature, where it starts in weights_
  std::vector<std::int64_t> offsets_;  // of the batch
  std::vector<Partition> partitions_;
};

}  // namespace fleetrec

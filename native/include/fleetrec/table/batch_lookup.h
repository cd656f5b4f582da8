// SPDX-License-Identifier: Apache-2.0
// All lookups of one batch in tables of one width: find rows, hand out vectors, give gradients
// back.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "fleetrec/table/table.h"

namespace fleetrec {

// kNone makes a sequence: the rows of a list stay apart.
enum class Combiner { kSum, kMean, kSqrtN, kNone };

// Column `column` of the ids goes through table number `table`.
struct LookupFeature {
  static constexpr std::size_t kAnyLength = std::numeric_limits<std::size_t>::max();

  std::size_t column;
  std::size_t table;
  Combiner combiner;
  std::size_t max_length = kAnyLength;  // of a sequence: of a longer list the last ids count

  bool is_pooled() const { return combiner != Combiner::kNone; }
};

// Lists of ids, column by column: sample i of column c owns ids[offsets[k]] up to ids[offsets[k+1]]
// with k = c * num_samples + i.
struct JaggedIds {
  std::span<const std::int64_t> ids;
  std::span<const std::int64_t> offsets;
  std::size_t num_samples;
  std::span<const float> weights = {};  // by id, for pooling; empty: all are 1

  const std::int64_t* offsets_of(std::size_t column) const {
    return offsets.data() + column * num_samples;
  }
};

enum class Purpose {
  kRead,    // rows as they are; nothing is created, no gradient comes
  kUpdate,  // rows that exist, for a gradient
  kTrain,   // the same, and ids are counted and may get rows
};

// The purpose of a lookup, and what training adds to the ids.
struct LookupContext {
  Purpose purpose = Purpose::kRead;
  std::uint32_t now = 0;               // event time, in seconds
  std::span<const float> labels = {};  // by sample, above 0.5 counts as click; empty: no clicks
};

// One row of pooled vectors per sample, `stride` floats from one to the next.
struct PooledGrad {
  std::span<const float> values;
  std::size_t stride;
};

// With a length, that many vectors per sample, of which those behind a list's end do not matter;
// without one, the vectors of all lists back to back.
struct SequenceGrad {
  std::span<const float> values;
  std::optional<std::size_t> length = std::nullopt;
};

// What is absent has no gradient, which is not the same as zeros: it moves no row.
struct Gradients {
  std::optional<PooledGrad> pooled = std::nullopt;
  std::vector<std::optional<SequenceGrad>> sequences = {};  // one each, or none at all
};

// Whether `apply` keeps the summed gradients.
enum class Changes { kForget, kKeep };

// Rows that changed, and the summed gradient of each.
struct TableChanges {
  std::vector<std::uint64_t> ids;
  std::vector<float> grads;

  void resize(std::size_t num_rows, std::size_t dim) {
    ids.resize(num_rows);
    grads.resize(num_rows * dim);
  }
  std::span<float> grad(std::size_t row, std::size_t dim) { return {&grads[row * dim], dim}; }
};

// The unique ids of a batch in one table; how often each occurs, and how often with a click.
struct ListedColumns {
  std::span<std::int64_t> ids;
  std::span<std::uint32_t> shows;
  std::span<std::uint32_t> clicks;
};

// Rows of listed ids, held by another process, and which of them exist.
struct ListedRows {
  std::span<const float> weights;
  std::span<const std::uint8_t> is_there;
};

struct IdOutOfRange {
  std::size_t feature;
  std::uint64_t id;
};

// Keeps its memory from batch to batch. Rows are found by partition: ids whose bucket falls
// together are one thread's work, in the order in which they stand in the batch. So the outcome
// does not depend on the number of threads, and no row needs a lock.
//
// Features that are pooled make one vector each, side by side in the order of the features. The
// others are sequences, numbered from 0 in the same order.
class BatchLookup {
 public:
  // Tables numbered in `frozen` are read and never changed.
  BatchLookup(std::vector<std::shared_ptr<Table>> tables, std::vector<LookupFeature> features,
              const std::vector<std::size_t>& frozen = {});

  std::size_t num_tables() const { return tables_.size(); }
  std::size_t dim() const { return dim_; }
  std::size_t width() const { return width_; }
  std::size_t num_sequences() const { return sequences_.size(); }
  std::size_t num_samples() const { return num_samples_; }

  // Finds the rows. Throws IdOutOfRange for the first such id of the batch, before a table has
  // changed. After a failure all other calls throw until a find succeeds.
  void find(const JaggedIds& batch, const LookupContext& context);

  // For rows held by other processes: lists the unique ids of every table instead of finding rows,
  // in an order that depends on the batch alone. Throws like `find`.
  void list(const JaggedIds& batch, const LookupContext& context);
  std::size_t num_listed(std::size_t table) const;
  void copy_listed(std::size_t table, const ListedColumns& columns) const;

  // Sets the rows of the listed ids, by table; they are not copied and must outlive the batch.
  // Afterwards the lookup works as after `find`, with `sum` in place of `apply`.
  void set_rows(std::span<const ListedRows> rows);

  // Sums the gradient of all vectors per row and keeps the sums as changes, for rows that exist
  // and in no frozen table.
  void sum(const Gradients& gradients);

  // Writes the pooled vectors, num_samples rows of width(). Like all that follow, throws
  // std::logic_error if a table lost rows since find: they are addresses by now.
  void pool(std::span<float> vectors) const;

  // Lengths of the lists of a sequence, without ids that were cut off.
  std::vector<std::int64_t> lengths(std::size_t sequence) const;

  // Writes `length` vectors per sample, at least as many as the longest list has; behind the end of
  // a list stand zeros.
  void pad(std::size_t sequence, std::span<float> vectors, std::size_t length) const;

  // Writes the vectors of all lists back to back.
  void gather(std::size_t sequence, std::span<float> vectors) const;

  // Sums the gradient of all vectors per row and applies the optimizer, once per row that has one.
  void apply(const Gradients& gradients, float lr, Changes changes = Changes::kForget);

  // The same where there are no sequences, or none has a gradient.
  void apply(std::span<const float> pooled, float lr, Changes changes = Changes::kForget) {
    apply(Gradients{.pooled = PooledGrad{pooled, width()}}, lr, changes);
  }

  // What `find` counted in one table, for a log: u64 ids and u8 clicks, in an order that gives the
  // same rows if it is counted again. `context` is that of the find.
  std::size_t num_impressions(std::size_t table) const;
  void copy_impressions(std::size_t table, const LookupContext& context, std::byte* ids,
                        std::byte* clicks) const;

  // What the last `apply` did to one table: u64 ids, and `dim` floats of gradient for each. Throws
  // std::logic_error if it was not kept.
  std::size_t num_changes(std::size_t table) const;
  void copy_changes(std::size_t table, std::byte* ids, std::byte* grads) const;

  // The same without a copy, valid until the generation rises: all ids, then all gradients.
  std::vector<std::span<const std::byte>> view_changes(std::size_t table) const;

  // Rises when impressions or changes are replaced.
  std::uint64_t generation() const { return generation_; }

 private:
  static constexpr std::size_t kPartitionsPerTable = 32;  // a byte holds the number of one
  static constexpr std::uint32_t kNoRow = 0xFFFFFFFF;
  static constexpr std::size_t kNoFault = std::numeric_limits<std::size_t>::max();

  struct Item {
    std::uint64_t id;
    std::uint32_t position;  // in weights_
    std::uint32_t bag;       // sample * features + feature
  };
  // A stretch of samples of one feature.
  struct Stretch {
    std::size_t feature;
    std::size_t first;
    std::size_t last;
    std::size_t fault = kNoFault;  // where in the batch its first id out of range stands
    // Where in items_ those of each partition of its table begin; one more at the end.
    std::array<std::uint32_t, kPartitionsPerTable + 1> begin = {};

    std::size_t size_of(std::size_t partition) const {
      return begin[partition + 1] - begin[partition];
    }
  };
  struct Partition {
    std::size_t table;
    std::size_t number;  // among those of its table
    bool is_frozen = false;
    std::vector<Item> items;             // in the order of the batch
    std::vector<Row> rows;               // the unique rows that were found
    std::vector<std::uint32_t> begin;    // by row, where its uses start; one more at the end
    std::vector<std::uint32_t> uses;     // bags if the batch is plain, else positions
    std::vector<std::uint32_t> row_of;   // by item; scratch
    TableChanges changes;                // if they are kept
    std::vector<std::uint64_t> ids;      // the unique ids, if they were only listed
    std::vector<std::uint32_t> shows;    // of each
    std::vector<std::uint32_t> clicks;   // of each
    std::vector<std::uint8_t> is_there;  // of each, from the rows that were set
    std::vector<std::uint32_t> slots;    // numbers of ids by hash; scratch
  };

  void check_batch(const JaggedIds& batch, const LookupContext& context) const;
  void place_lists(const JaggedIds& batch);
  void split(const JaggedIds& batch);
  void split(const JaggedIds& batch, Stretch& stretch);
  template <typename Visit>
  void each_id(const JaggedIds& batch, const Stretch& stretch, const Visit& visit) const;
  void collect(Partition& partition) const;
  void weigh(const JaggedIds& batch);
  void resolve(Partition& partition, const LookupContext& context);
  Row look_up(Table& table, const Item& item, Row likely, const LookupContext& context) const;
  bool is_click(const Item& item, const LookupContext& context) const;
  void group(Partition& partition, std::size_t num_rows) const;
  void begin(const JaggedIds& batch);
  void number(Partition& partition, const LookupContext& context) const;
  void set_rows(Partition& partition, const ListedRows& rows, std::size_t first);
  void sum(Partition& partition, const Gradients& gradients) const;

  std::vector<std::unique_lock<std::mutex>> lock_tables() const;
  std::uint64_t num_removals() const;
  std::span<const Partition> partitions_of(std::size_t table) const;
  void check_found() const;
  void check_rows_are_there() const;
  const std::uint32_t* starts(std::size_t feature) const {
    return &starts_[feature * (num_samples_ + 1)];
  }
  std::size_t num_ids(std::size_t feature) const {
    return starts(feature)[num_samples_] - starts(feature)[0];
  }
  std::size_t longest(std::size_t feature) const;
  std::size_t feature_of(std::size_t sequence) const;

  template <typename Work>
  void each_block_of_samples(const Work& work) const;
  void pool(std::size_t feature, std::size_t first, std::size_t last, float* vectors,
            std::size_t stride) const;
  void copy_vectors(std::size_t first, std::size_t last, float* vectors) const;

  void check_gradients(const Gradients& gradients) const;
  void point_at(const Gradients& gradients);
  void apply(Partition& partition, const Gradients& gradients, float lr, bool keep_changes) const;
  bool sum_up(const Partition& partition, std::size_t row, const Gradients& gradients,
              std::span<float> sum) const;
  const float* grad_of(std::uint32_t use, const Gradients& gradients) const;

  std::vector<std::shared_ptr<Table>> tables_;
  std::vector<LookupFeature> features_;
  std::vector<std::size_t> pooled_;     // features, by place in the pooled vectors
  std::vector<std::size_t> sequences_;  // features, by number of the sequence
  std::vector<std::size_t> by_table_;   // features, those of one table after each other
  std::size_t dim_;
  std::size_t width_ = 0;
  bool has_means_ = false;  // some combiner is neither sum nor none

  bool is_listed_ = false;  // ids were listed, and not looked up
  bool is_found_ = false;   // all that follows is of one batch
  std::size_t num_samples_ = 0;
  bool is_weighted_ = false;           // scales_ count
  bool is_plain_ = true;               // nothing but sums of rows as they are
  std::uint64_t removals_before_ = 0;  // when the rows were found
  std::uint64_t generation_ = 0;
  bool has_changes_ = false;
  std::vector<Stretch> stretches_;          // table by table
  std::vector<std::size_t> first_stretch_;  // by table; one more at the end
  std::vector<Item> items_;                 // stretch by stretch, and in each by partition
  std::vector<std::uint8_t> partition_of_;  // by position; scratch of find
  std::vector<std::uint32_t> starts_;  // by feature and sample, where a list starts in weights_
  std::vector<const float*> weights_;  // of all ids, feature by feature; nullptr: no row
  std::vector<float> scales_;          // by position: what a row is multiplied by when it is pooled
  std::vector<const float*> grads_;    // by position, unless plain; nullptr: none; scratch of apply
  std::vector<Partition> partitions_;
};

}  // namespace fleetrec

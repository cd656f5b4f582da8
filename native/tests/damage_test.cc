// SPDX-License-Identifier: Apache-2.0
// Damaged files of tables, a few; the fuzz run takes many.
#include "check.h"
#include "log_damage.h"
#include "snapshot_damage.h"

namespace fleetrec::testing {

TEST(a_damaged_snapshot_is_refused_or_gives_what_was_written) {
  Random random(21);
  for (int i = 0; i < 10; ++i) feed_damaged_snapshot(random);
}

TEST(a_damaged_log_is_refused_or_gives_the_tables_after_a_record) {
  Random random(22);
  for (int i = 0; i < 10; ++i) feed_damaged_log(random);
}

TEST(a_shard_file_that_is_taken_apart_and_signed_is_the_same) {
  Random random(23);
  const SnapshotFiles made = make_snapshot(random);
  for (const auto& [name, bytes] : made.files) CHECK(sign(take_apart(bytes)) == bytes);
}

}  // namespace fleetrec::testing

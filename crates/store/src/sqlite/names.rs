//! Which jobs have which names, as far as it is remembered.
//!
//! Names come in no order, so that with many jobs each search for one reads pages that no other has
//! read lately. What is remembered saves that search. It is a guess: two names may look alike here, and
//! the job may be gone or another. Whoever is told a job compares its name, and looks for it in the
//! index where it is not the one.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{PoisonError, RwLock};

use kalends_domain::{CollectionPath, JobPath};

use crate::record::JobKey;

/// Bits of a slot that tell names apart.
const LOOK_BITS: u32 = 28;

/// The other bits are the job's number; one with more is not remembered.
const NUMBER_BITS: u32 = 64 - LOOK_BITS;

/// Slots that are looked through for a name: as many as the processor fetches at once.
const SLOTS: usize = 8;

/// There are two to this many buckets at first: 8 KiB.
const BUCKET_BITS_MIN: u32 = 7;

/// And at most: 16 MiB, for a million names and some.
const BUCKET_BITS_MAX: u32 = 18;

/// The names that were met lately.
pub(crate) struct Names(RwLock<Table>);

/// The parts of the path of a collection, as they are compared.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct CollectionKeys {
    pub(crate) subscription: String,
    pub(crate) group: String,
    pub(crate) collection: String,
}

/// The parts of the path of a job, as they are compared.
#[derive(Hash)]
pub(crate) struct PathKeys {
    pub(crate) collection: CollectionKeys,
    pub(crate) job: String,
}

impl CollectionKeys {
    pub(crate) fn new(path: &CollectionPath) -> CollectionKeys {
        CollectionKeys {
            subscription: path.group.subscription.key(),
            group: path.group.group.key(),
            collection: path.collection.key(),
        }
    }
}

impl PathKeys {
    pub(crate) fn new(path: &JobPath) -> PathKeys {
        PathKeys { collection: CollectionKeys::new(&path.collection), job: path.job.key() }
    }

    fn look(&self) -> u64 {
        // Whoever makes names that look alike only makes his own searches longer.
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish() >> NUMBER_BITS
    }
}

struct Table {
    bucket_bits: u32,
    /// Empty, or a look and below it a number.
    buckets: Vec<[u64; SLOTS]>,
    taken: usize,
}

impl Default for Names {
    fn default() -> Names {
        Names(RwLock::new(Table::new(BUCKET_BITS_MIN)))
    }
}

impl Names {
    /// The job that may have a name.
    pub(crate) fn guess(&self, keys: &PathKeys) -> Option<JobKey> {
        let look = keys.look();
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let slot = table.bucket(look)?.iter().find(|slot| is_taken_by(**slot, look))?;
        Some(JobKey((slot & ((1 << NUMBER_BITS) - 1)).cast_signed()))
    }

    /// Remembers that a job has a name.
    pub(crate) fn learn(&self, keys: &PathKeys, job: JobKey) {
        let number = job.0.cast_unsigned();
        if number == 0 || number >> NUMBER_BITS != 0 {
            return;
        }
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        table.put(keys.look(), number);
        if table.taken > table.buckets.len() * SLOTS / 2 && table.bucket_bits < BUCKET_BITS_MAX {
            *table = table.grown();
        }
    }
}

impl Table {
    fn new(bucket_bits: u32) -> Table {
        Table { bucket_bits, buckets: vec![[0; SLOTS]; 1 << bucket_bits], taken: 0 }
    }

    /// Twice as large: the first bits of a look say where it is.
    fn grown(&self) -> Table {
        let mut grown = Table::new(self.bucket_bits + 1);
        for slot in self.buckets.iter().flatten().filter(|slot| **slot != 0) {
            grown.put(slot >> NUMBER_BITS, slot & ((1 << NUMBER_BITS) - 1));
        }
        grown
    }

    fn place(&self, look: u64) -> usize {
        (look >> (LOOK_BITS - self.bucket_bits)) as usize
    }

    fn bucket(&self, look: u64) -> Option<&[u64; SLOTS]> {
        self.buckets.get(self.place(look))
    }

    fn put(&mut self, look: u64, number: u64) {
        let place = self.place(look);
        let Some(bucket) = self.buckets.get_mut(place) else { return };
        let slot = bucket.iter().position(|slot| is_taken_by(*slot, look));
        let slot = slot.or_else(|| bucket.iter().position(|slot| *slot == 0));
        // Where all are taken, one that is as good as any other is forgotten.
        let slot = slot.unwrap_or(number as usize % SLOTS);
        if let Some(slot) = bucket.get_mut(slot) {
            self.taken += usize::from(*slot == 0);
            *slot = look << NUMBER_BITS | number;
        }
    }
}

fn is_taken_by(slot: u64, look: u64) -> bool {
    slot != 0 && slot >> NUMBER_BITS == look
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(number: i64) -> PathKeys {
        let [subscription, group, collection] = ["S", "G", "C"].map(String::from);
        let collection = CollectionKeys { subscription, group, collection };
        PathKeys { collection, job: format!("JOB-{number}") }
    }

    #[test]
    fn what_was_learnt_is_told_while_there_is_room() {
        const COUNT: i64 = 200_000;
        let names = Names::default();
        assert_eq!(names.guess(&keys(1)), None);
        for number in 1..=COUNT {
            names.learn(&keys(number), JobKey(number));
        }
        let right = (1..=COUNT).filter(|n| names.guess(&keys(*n)) == Some(JobKey(*n))).count();
        assert!(right as i64 > COUNT * 98 / 100, "{right} of {COUNT}");
        names.learn(&keys(7), JobKey(8));
        assert_eq!(names.guess(&keys(7)), Some(JobKey(8)), "the newest holds");
    }

    #[test]
    fn it_takes_no_more_room_than_it_may() {
        let mut table = Table::new(BUCKET_BITS_MAX);
        let buckets = table.buckets.len() as u64;
        for look in 0..buckets {
            for number in 1..=2 * SLOTS as u64 {
                table.put(look << (LOOK_BITS - BUCKET_BITS_MAX) | number, number);
            }
        }
        assert_eq!(table.taken, table.buckets.len() * SLOTS);
    }

    #[test]
    fn a_number_that_has_no_room_is_not_remembered() {
        let names = Names::default();
        for number in [0, -1, 1 << NUMBER_BITS, i64::MAX] {
            names.learn(&keys(1), JobKey(number));
            assert_eq!(names.guess(&keys(1)), None, "{number}");
        }
    }
}

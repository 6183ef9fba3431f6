//! The texts of all jobs in memory, so that a search among a million jobs takes milliseconds.
//!
//! A background scan reads them by collection and name. Names never change and keys increase, so a
//! search adds the jobs that were created since the scan, and reads the states of its matches. It
//! also knows the texts of jobs that this node edited since. A target, description or tag that another
//! node changed takes effect with the next scan.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kalends_domain::JobName;
use kalends_environment::Stopwatch;
use kalends_store::record::{CollectionKey, JobKey};
use kalends_store::{
    EditedJob, JobMatch, JobSearch, JobSearchPage, JobSummary, ScannedText, SearchPosition,
    StoreError, TextsFrom, TextsPage, search_text,
};
use memchr::memmem::Finder;

use super::PAGE;
use super::background_scan::Scanned;
use super::states::rest_after;
use crate::app::App;

/// Number of jobs from which a search uses the index. A scan of fewer takes milliseconds, and finds
/// every edit at once.
pub(crate) const INDEXED_JOBS_MIN: usize = 10_000;
/// Size of the texts, in bytes, above which there is no index.
const BYTES_MAX: usize = 256 << 20;
/// Jobs created since the scan that a search examines, and jobs edited since. If there are more, it does
/// not use the index.
const NEWER_MAX: usize = 2_000;
/// Transactions that were not committed when the scan started may have created jobs with keys up to
/// this number below the newest one.
const KEYS_IN_FLIGHT: i64 = 64;
/// Size of the texts that one call examines, in bytes: some milliseconds of work.
const STEP: usize = 16 << 20;
/// Ends the name, and the text, of an entry. Neither contains it.
const END: u8 = 0;

/// The texts of all jobs.
#[derive(Default)]
pub(crate) struct SearchIndex {
    /// By collection and name.
    segments: Vec<Segment>,
    jobs: usize,
    bytes: usize,
    /// Jobs with a greater key were perhaps created after the scan.
    newest: i64,
    /// Number of the last edit before the scan.
    edits: u64,
}

/// Some consecutive jobs of a collection.
struct Segment {
    collection: CollectionKey,
    /// Of each job the name and the text in lower case, each followed by [`END`]. A line break precedes
    /// and follows the text, so that a search finds whole tags.
    text: Vec<u8>,
    /// Start of each job in `text`.
    starts: Vec<u32>,
    keys: Vec<JobKey>,
}

/// A job whose texts match.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    job: JobKey,
    name: JobName,
}

impl Segment {
    fn new(collection: CollectionKey) -> Segment {
        Segment { collection, text: vec![], starts: vec![], keys: vec![] }
    }

    fn push(&mut self, scanned: &ScannedText) {
        self.starts.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
        self.keys.push(scanned.job);
        let name = scanned.name.as_str().to_ascii_lowercase();
        for part in [&[name.as_str()][..], &["\n", &scanned.text, "\n"]] {
            let bytes = part.iter().flat_map(|part| part.bytes());
            self.text.extend(bytes.filter(|byte| *byte != END));
            self.text.push(END);
        }
    }

    fn start(&self, number: usize) -> usize {
        self.starts.get(number).map_or(self.text.len(), |start| *start as usize)
    }

    fn name(&self, number: usize) -> Option<JobName> {
        let text = self.text.get(self.start(number)..)?;
        let name = text.split(|byte| *byte == END).next()?;
        JobName::new(std::str::from_utf8(name).ok()?).ok()
    }

    /// Number of the first job after a name.
    fn first_after(&self, name: Option<&JobName>) -> usize {
        let Some(after) = name else { return 0 };
        let (mut low, mut high) = (0, self.keys.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.name(middle).is_some_and(|name| name <= *after) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// The matches from a job on, at most `limit`, without those in `except`. A match has every word;
    /// the first one, which should be rare, finds the candidates.
    fn matches(
        &self,
        words: &[Finder<'_>],
        from: usize,
        limit: usize,
        except: &HashSet<JobKey>,
    ) -> Vec<Candidate> {
        let mut found = Vec::new();
        let mut number = from;
        while found.len() < limit && number < self.keys.len() {
            if let Some(first) = words.first() {
                let start = self.start(number);
                let rest = self.text.get(start..).unwrap_or_default();
                let Some(place) = first.find(rest) else { break };
                let place = start + place;
                number = self.starts.partition_point(|start| *start as usize <= place) - 1;
            }
            let own = self.text.get(self.start(number)..self.start(number + 1)).unwrap_or_default();
            let has_others = words.iter().skip(1).all(|word| word.find(own).is_some());
            let job = self.keys.get(number).filter(|job| has_others && !except.contains(job));
            let candidate = |job: &JobKey| Some(Candidate { job: *job, name: self.name(number)? });
            found.extend(job.and_then(candidate));
            number += 1;
        }
        found
    }
}

impl SearchIndex {
    /// Whether a search may use the index.
    fn is_usable(&self) -> bool {
        self.jobs >= INDEXED_JOBS_MIN && self.bytes <= BYTES_MAX
    }

    fn add(&mut self, page: &[ScannedText]) {
        for jobs in page.chunk_by(|one, other| one.collection == other.collection) {
            let Some(first) = jobs.first() else { continue };
            let mut segment = Segment::new(first.collection);
            jobs.iter().for_each(|job| segment.push(job));
            segment.text.shrink_to_fit();
            self.jobs += jobs.len();
            self.bytes += segment.text.len();
            self.segments.push(segment);
        }
    }

    /// The segments of a collection with jobs after a name.
    fn segments_of(
        &self,
        collection: CollectionKey,
        after: Option<&JobName>,
    ) -> impl Iterator<Item = &Segment> {
        let is_before = |segment: &Segment| {
            let last = segment.keys.len().checked_sub(1).and_then(|last| segment.name(last));
            segment.collection < collection
                || segment.collection == collection && after.is_some() && last.as_ref() <= after
        };
        let first = self.segments.partition_point(is_before);
        let rest = self.segments.get(first..).unwrap_or_default();
        rest.iter().take_while(move |segment| segment.collection == collection)
    }

    /// The candidates of a search, at most about `search.scan_max`, in order, and where the search
    /// goes on.
    fn candidates(
        &self,
        newer: &NewerJobs,
        search: &JobSearch,
    ) -> (Vec<Candidate>, Option<SearchPosition>) {
        let limit = search.scan_max.max(1);
        if search.words.iter().any(|word| word.as_bytes().contains(&END)) {
            return (vec![], None);
        }
        let mut found: Vec<Candidate> = Vec::new();
        let mut left = STEP;
        for (place, collection) in search.collections.iter().enumerate() {
            let after = search.after.as_ref().filter(|_| place == 0);
            let mut words = search.words_of(collection);
            // A long word is rarer than a short one.
            words.sort_by_key(|word| std::cmp::Reverse(word.len()));
            let words: Vec<_> = words.iter().map(Finder::new).collect();
            let mut current = newer.matches(collection.key, &words, after).peekable();
            let mut end = after.cloned();
            // After the segments come the newer jobs behind them.
            for segment in self.segments_of(collection.key, after).map(Some).chain([None]) {
                if left == 0 || found.len() >= limit {
                    let rest = SearchPosition { collection: collection.key, after: end };
                    return (found, Some(rest));
                }
                let Some(segment) = segment else {
                    found.extend(current.by_ref());
                    break;
                };
                let (from, room) = (segment.first_after(after), limit - found.len());
                let own = segment.matches(&words, from, room, &newer.jobs);
                // The end of what was examined, and of the newer jobs to insert before it.
                end = match own.last().filter(|_| own.len() >= room) {
                    Some(last) => Some(last.name.clone()),
                    None => segment.keys.len().checked_sub(1).and_then(|last| segment.name(last)),
                };
                left = left.saturating_sub(segment.text.len());
                let mut own = own.into_iter().peekable();
                let mut next = || match (own.peek(), current.peek()) {
                    (Some(one), Some(other)) if one.name < other.name => own.next(),
                    (_, Some(other)) if end.as_ref().is_some_and(|end| other.name <= *end) => {
                        current.next()
                    }
                    _ => own.next(),
                };
                found.extend(std::iter::from_fn(&mut next));
            }
        }
        (found, None)
    }
}

/// The jobs that were created or edited since the scan, with their present texts.
#[derive(Default)]
struct NewerJobs {
    /// The texts of these jobs in the index do not count.
    jobs: HashSet<JobKey>,
    /// In name order.
    collections: HashMap<CollectionKey, Segment>,
}

impl NewerJobs {
    fn new(mut texts: Vec<ScannedText>) -> NewerJobs {
        texts.sort_by(|one, other| one.name.cmp(&other.name));
        let mut newer = NewerJobs::default();
        for text in &texts {
            let segment = newer.collections.entry(text.collection);
            segment.or_insert_with(|| Segment::new(text.collection)).push(text);
            newer.jobs.insert(text.job);
        }
        newer
    }

    fn matches(
        &self,
        collection: CollectionKey,
        words: &[Finder<'_>],
        after: Option<&JobName>,
    ) -> impl Iterator<Item = Candidate> + use<> {
        let segment = self.collections.get(&collection);
        let found = segment
            .map(|segment| {
                let from = segment.first_after(after);
                segment.matches(words, from, usize::MAX, &HashSet::new())
            })
            .unwrap_or_default();
        found.into_iter()
    }
}

/// The texts of jobs that this node edited lately.
#[derive(Default)]
pub(super) struct EditedTexts(Mutex<Edits>);

#[derive(Default)]
struct Edits {
    /// Number of the last edit.
    last: u64,
    /// Edits up to this number are not in `texts`, because there were too many.
    dropped: u64,
    texts: HashMap<JobKey, EditedText>,
}

#[derive(Clone)]
struct EditedText {
    /// Number of the edit.
    edit: u64,
    /// Version of the job.
    version: u64,
    name: JobName,
    text: String,
}

impl EditedTexts {
    /// Adds an edit that changed the text of a job.
    pub(super) fn add(&self, edited: &EditedJob) {
        // A search reads new jobs from the store, and a deleted one has no state.
        let (Some(before), Some(after)) = (&edited.before, &edited.after) else { return };
        let text = search_text(&after.job.definition);
        if before.key == after.key && search_text(&before.job.definition) == text {
            return;
        }
        let mut edits = self.edits();
        edits.last += 1;
        let (edit, version, name) = (edits.last, after.version, after.path.job.clone());
        // Edits may arrive here in another order than the store applied them.
        if edits.texts.get(&after.key).is_some_and(|known| known.version >= version) {
            return;
        }
        edits.texts.insert(after.key, EditedText { edit, version, name, text });
        if edits.texts.len() > NEWER_MAX {
            edits.texts.clear();
            edits.dropped = edit;
        }
    }

    /// Number of the last edit.
    fn last(&self) -> u64 {
        self.edits().last
    }

    /// The texts that changed since the scan of an index; `None` if some were dropped.
    fn since(&self, index: &SearchIndex) -> Option<HashMap<JobKey, EditedText>> {
        let mut edits = self.edits();
        edits.texts.retain(|_, text| text.edit > index.edits);
        (edits.dropped <= index.edits).then(|| edits.texts.clone())
    }

    fn edits(&self) -> MutexGuard<'_, Edits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The index with the jobs that were created or edited since, for one search.
pub(crate) struct CurrentIndex {
    index: Arc<SearchIndex>,
    newer: NewerJobs,
}

impl CurrentIndex {
    /// `None` if there is no index, or too many jobs were created or edited since.
    pub(super) async fn read(
        app: &App,
        index: Arc<SearchIndex>,
    ) -> Result<Option<CurrentIndex>, StoreError> {
        if !index.is_usable() {
            return Ok(None);
        }
        let after = TextsFrom::Key(JobKey(index.newest - KEYS_IN_FLIGHT));
        let Some(mut edited) = app.overview.edited_texts.since(&index) else { return Ok(None) };
        let TextsPage { mut texts, is_full } = app.store.scan_texts(after, NEWER_MAX).await?;
        if is_full {
            return Ok(None);
        }
        for text in &texts {
            edited.remove(&text.job);
        }
        if !edited.is_empty() {
            let keys = edited.keys().copied().collect();
            let collections = app.store.states_by_key(keys).await?;
            texts.extend(collections.into_iter().filter_map(
                |JobSummary { job, collection, .. }| {
                    let EditedText { name, text, .. } = edited.remove(&job)?;
                    Some(ScannedText { job, collection, name, text })
                },
            ));
        }
        Ok(Some(CurrentIndex { index, newer: NewerJobs::new(texts) }))
    }

    /// Searches as [`kalends_store::OverviewStore::search_jobs`] does, except that `scan_max` limits the
    /// number of matches.
    pub(crate) async fn search(
        &self,
        app: &App,
        search: JobSearch,
    ) -> Result<JobSearchPage, StoreError> {
        let (candidates, rest) = self.index.candidates(&self.newer, &search);
        let keys = candidates.iter().map(|candidate| candidate.job).collect();
        let states = app.store.states_by_key(keys).await?;
        let states: HashMap<JobKey, JobSummary> =
            states.into_iter().map(|state| (state.job, state)).collect();
        // Deleted jobs have no state.
        let found = |Candidate { job, name }| Some(JobMatch { name, state: *states.get(&job)? });
        let jobs = candidates.into_iter().filter_map(found).collect();
        Ok(JobSearchPage { jobs, rest })
    }
}

/// Reads the texts of all jobs.
pub(super) async fn scan(app: &App) -> Result<Scanned<SearchIndex>, StoreError> {
    let edits = app.overview.edited_texts.last();
    let newest = app.store.newest_job().await?.0;
    let mut index = SearchIndex { newest, edits, ..Default::default() };
    let (mut work, mut after) = (Duration::ZERO, None);
    loop {
        let watch = Stopwatch::start();
        let TextsPage { texts, is_full } =
            app.store.scan_texts(TextsFrom::Name(after), PAGE).await?;
        index.add(&texts);
        let page = watch.elapsed();
        work += page;
        after = texts.last().map(|last| (last.collection, last.name.clone()));
        if !is_full {
            return Ok(Scanned { result: index, work });
        }
        if index.bytes > BYTES_MAX {
            index.segments = vec![];
            return Ok(Scanned { result: index, work });
        }
        rest_after(app, page).await;
    }
}

#[cfg(test)]
mod tests {
    use kalends_store::SearchedCollection;

    use super::*;

    fn text(job: i64, collection: i64, name: &str, text: &str) -> ScannedText {
        let (job, collection) = (JobKey(job), CollectionKey(collection));
        ScannedText { job, collection, name: JobName::new(name).unwrap(), text: text.into() }
    }

    /// Every match of all collections, in steps of `limit` matches.
    fn find(index: &SearchIndex, newer: &NewerJobs, words: &str, limit: usize) -> Vec<i64> {
        let matched = |key| if key == 3 { 1 } else { 0 };
        let collection =
            |key| SearchedCollection { key: CollectionKey(key), jobs: 9, matched: matched(key) };
        let mut search = JobSearch {
            collections: (1..=4).map(collection).collect(),
            after: None,
            words: words.split(' ').map(str::to_owned).collect(),
            scan_max: limit,
        };
        let mut found = vec![];
        loop {
            let (candidates, rest) = index.candidates(newer, &search);
            found.extend(candidates.iter().map(|candidate| candidate.job.0));
            let Some(rest) = rest else { return found };
            search.collections.retain(|one| one.key >= rest.collection);
            search.after = rest.after;
        }
    }

    #[test]
    fn an_index_finds_every_match_once_and_in_order_with_jobs_created_since() {
        let mut index = SearchIndex::default();
        index.add(&[text(1, 1, "alpha-1", "http://one.example/"), text(2, 1, "Beta", "tag one")]);
        index.add(&[text(9, 1, "gamma", "two"), text(4, 2, "one", "\n"), text(5, 3, "any", "")]);
        let newer = NewerJobs::new(vec![
            text(11, 1, "zone", ""),
            text(10, 1, "b-one", ""),
            text(9, 1, "gamma", "two"),
            text(12, 4, "only-ONE", ""),
        ]);
        for limit in [1, 2, 3, 100] {
            assert_eq!(find(&index, &newer, "ONE", limit), [1, 10, 2, 11, 4, 5, 12], "{limit}");
            assert_eq!(find(&index, &newer, "one tag BETA", limit), [2], "all words");
            assert_eq!(find(&index, &newer, "x any", limit), [5], "one in the collection's name");
            assert_eq!(find(&index, &newer, "gam", limit), [9, 5], "once, though read twice");
            assert!(find(&index, &newer, "-1\0http", limit).is_empty(), "across two texts");
            assert_eq!(find(&index, &newer, "absent", limit), [5], "a matching collection");
        }
    }

    #[test]
    fn the_present_text_of_an_edited_job_replaces_the_one_in_the_index() {
        let mut index = SearchIndex::default();
        index.add(&[text(1, 1, "a", "old"), text(2, 1, "b", "old"), text(3, 1, "c", "old")]);
        index.add(&[text(4, 1, "d", "old"), text(5, 2, "e", "old")]);
        let newer = NewerJobs::new(vec![
            text(2, 1, "b", "new"),
            text(4, 1, "d", "new old"),
            text(5, 2, "e", "new"),
        ]);
        for limit in [1, 2, 3, 100] {
            assert_eq!(find(&index, &newer, "old", limit), [1, 3, 4], "{limit}");
            assert_eq!(find(&index, &newer, "new", limit), [2, 4, 5], "{limit}");
        }
    }
}

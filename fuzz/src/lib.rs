//! Invariants of every recurrence rule, shared by the fuzz targets.

use kalends_recurrence::{Instant, Rule};

/// Checks that the queries of a rule agree with each other near `at`.
pub fn check_rule(rule: &Rule, at: Instant) {
    let near: Vec<_> = rule.occurrences_after(at).take(40).collect();
    assert!(near.is_sorted_by(|a, b| a < b), "occurrences are in order and unique");
    assert_eq!(near.first().copied(), rule.next_after(at));
    assert!(near.first().is_none_or(|&next| next > at));
    for (index, &occurrence) in near.iter().enumerate() {
        assert_eq!(rule.last_at_or_before(occurrence), Some(occurrence));
        if let Some(&next) = near.get(index + 1) {
            assert_eq!(rule.next_after(occurrence), Some(next));
        }
        assert_eq!(rule.count_between(at, occurrence), index as u64 + 1);
    }
    if let Some(last) = rule.last_at_or_before(at) {
        assert!(last <= at);
        assert_eq!(rule.count_between(last, at), 0);
    }
    let first = rule.first();
    assert!(first.is_none_or(|first| first >= rule.definition().created));
    let end = rule.definition().recurrence.as_ref().and_then(|recurrence| recurrence.end);
    assert!(near.last().is_none_or(|&last| end.is_none_or(|end| last <= end)));
    let all = rule.count_between(Instant::MIN, Instant::MAX);
    assert_eq!(all == 0, rule.last_at_or_before(Instant::MAX).is_none());
    assert!(!rule.describe().is_empty());
    if let Some(&next) = near.first() {
        let year = std::time::Duration::from_secs(366 * 86_400);
        drop(rule.dst_notes(next, next.saturating_add(year)));
    }
}

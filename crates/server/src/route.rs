//! From a path to what it names. Keywords are read without regard to case, names are decoded once.

use kalends_domain::{
    CollectionName, CollectionPath, GroupName, GroupPath, JobName, JobPath, SubscriptionId,
};
use kalends_wire::{Code, Errors};
use percent_encoding::percent_decode_str;

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Home,
    Operations,
    Provider { subscription: SubscriptionId },
    Groups { subscription: SubscriptionId },
    Group(GroupPath),
    CollectionsOfSubscription(SubscriptionId),
    CollectionsOfGroup(GroupPath),
    Collection(CollectionPath),
    SwitchCollection { collection: CollectionPath, on: bool },
    Jobs(CollectionPath),
    Job(JobPath),
    Run(JobPath),
    History(JobPath),
    Preview(JobPath),
}

/// Reads a path. `Ok(None)` where there is nothing of that form.
pub(crate) fn route(path: &str) -> Result<Option<Route>, Errors> {
    let mut segments = Vec::new();
    for segment in path.strip_prefix('/').unwrap_or(path).split('/') {
        let decoded = percent_decode_str(segment).decode_utf8();
        let message = "the path is not UTF-8";
        segments.push(decoded.map_err(|_| Errors::one(Code::InvalidRequest, "", message))?);
    }
    let segments: Vec<&str> = segments.iter().map(|segment| &**segment).collect();
    Segments(&segments).route()
}

struct Segments<'a>(&'a [&'a str]);

impl<'a> Segments<'a> {
    /// Takes the next segments where they are these keywords.
    fn keywords(&mut self, words: &[&str]) -> bool {
        let found = self.0.len() >= words.len()
            && words.iter().zip(self.0).all(|(word, segment)| word.eq_ignore_ascii_case(segment));
        if found {
            self.0 = self.0.get(words.len()..).unwrap_or_default();
        }
        found
    }

    fn name(&mut self) -> Option<&'a str> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn is_end(&self) -> bool {
        self.0.is_empty()
    }

    fn route(mut self) -> Result<Option<Route>, Errors> {
        if self.0 == [""] {
            return Ok(Some(Route::Home));
        }
        if self.keywords(&["providers", "Microsoft.Scheduler", "operations"]) {
            return Ok(self.is_end().then_some(Route::Operations));
        }
        if !self.keywords(&["subscriptions"]) {
            return Ok(None);
        }
        let Some(name) = self.name() else { return Ok(None) };
        let subscription = SubscriptionId::new(name).map_err(|error| refuse(error, name))?;
        if self.keywords(&["providers", "Microsoft.Scheduler"]) {
            if self.is_end() || (self.keywords(&["register"]) && self.is_end()) {
                return Ok(Some(Route::Provider { subscription }));
            }
            let all = self.keywords(&["jobCollections"]) && self.is_end();
            return Ok(all.then_some(Route::CollectionsOfSubscription(subscription)));
        }
        if !self.keywords(&["resourceGroups"]) {
            return Ok(None);
        }
        let Some(name) = self.name().filter(|name| !name.is_empty()) else {
            return Ok(self.is_end().then_some(Route::Groups { subscription }));
        };
        let group = GroupName::new(name).map_err(|error| refuse(error, name))?;
        let group = GroupPath { subscription, group };
        if self.is_end() {
            return Ok(Some(Route::Group(group)));
        }
        if !self.keywords(&["providers", "Microsoft.Scheduler", "jobCollections"]) {
            return Ok(None);
        }
        self.in_group(group)
    }

    fn in_group(mut self, group: GroupPath) -> Result<Option<Route>, Errors> {
        let Some(name) = self.name() else { return Ok(Some(Route::CollectionsOfGroup(group))) };
        let collection = CollectionName::new(name).map_err(|error| refuse(error, name))?;
        let collection = CollectionPath { group, collection };
        if self.is_end() {
            return Ok(Some(Route::Collection(collection)));
        }
        for (word, on) in [("enable", true), ("disable", false)] {
            if self.keywords(&[word]) {
                let route = Route::SwitchCollection { collection, on };
                return Ok(self.is_end().then_some(route));
            }
        }
        if !self.keywords(&["jobs"]) {
            return Ok(None);
        }
        let Some(name) = self.name() else { return Ok(Some(Route::Jobs(collection))) };
        if name.is_empty() && self.is_end() {
            return Ok(None);
        }
        let job = JobName::new(name).map_err(|error| refuse(error, name))?;
        let job = JobPath { collection, job };
        Ok(match self.0 {
            [] => Some(Route::Job(job)),
            [action] if action.eq_ignore_ascii_case("run") => Some(Route::Run(job)),
            [action] if action.eq_ignore_ascii_case("history") => Some(Route::History(job)),
            [action] if action.eq_ignore_ascii_case("preview") => Some(Route::Preview(job)),
            _ => None,
        })
    }
}

fn refuse(error: kalends_domain::NameError, name: &str) -> Errors {
    let shown: String = name.chars().take(100).collect();
    Errors::one(error.into(), "", format!("{shown:?} is no name: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JC: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/Rg/providers/Microsoft.Scheduler/jobCollections/Jc";

    #[test]
    fn keywords_are_read_without_case_and_names_keep_theirs() {
        let lower = route(&format!("{JC}/jobs/J1")).unwrap();
        let upper = JC
            .replace("subscriptions", "SUBSCRIPTIONS")
            .replace("resourceGroups", "resourcegroups");
        let upper = upper
            .replace("Microsoft.Scheduler/jobCollections", "microsoft.scheduler/jobcollections");
        assert_eq!(route(&format!("{upper}/JOBS/J1")).unwrap(), lower);
        let Some(Route::Job(path)) = lower else { panic!("no job") };
        assert_eq!((path.job.as_str(), path.collection.collection.as_str()), ("J1", "Jc"));
    }

    #[test]
    fn every_form_of_path_is_known() {
        let is = |path: &str, expected: fn(&Route) -> bool| {
            assert!(route(path).unwrap().as_ref().is_some_and(expected), "{path}");
        };
        let subscription = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40";
        is("/", |r| *r == Route::Home);
        is(&format!("{subscription}/providers/Microsoft.Scheduler"), |r| {
            matches!(r, Route::Provider { .. })
        });
        is(&format!("{subscription}/providers/microsoft.scheduler/register"), |r| {
            matches!(r, Route::Provider { .. })
        });
        is(&format!("{subscription}/resourcegroups"), |r| matches!(r, Route::Groups { .. }));
        is(&format!("{subscription}/resourcegroups/x"), |r| matches!(r, Route::Group(_)));
        is(&format!("{subscription}/providers/Microsoft.Scheduler/jobCollections"), |r| {
            matches!(r, Route::CollectionsOfSubscription(_))
        });
        is(JC, |r| matches!(r, Route::Collection(_)));
        is(&format!("{JC}/enable"), |r| matches!(r, Route::SwitchCollection { on: true, .. }));
        is(&format!("{JC}/disable"), |r| matches!(r, Route::SwitchCollection { on: false, .. }));
        is(&format!("{JC}/jobs"), |r| matches!(r, Route::Jobs(_)));
        is(&format!("{JC}/jobs/j/run"), |r| matches!(r, Route::Run(_)));
        is(&format!("{JC}/jobs/j/history"), |r| matches!(r, Route::History(_)));
        is(&format!("{JC}/jobs/j/preview"), |r| matches!(r, Route::Preview(_)));
        for path in [
            "/x",
            "/subscriptions",
            &format!("{JC}/jobs/"),
            &format!("{JC}/jobs/j/x"),
            &format!("{JC}/x"),
        ] {
            assert_eq!(route(path), Ok(None), "{path}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for name in
            ["..%2f..%2fother", "%2e%2e", "a%00b", "a%0ab", "%E2%80%AEevil", "-", "1a", "%252e"]
        {
            let errors = route(&format!("{JC}/jobs/{name}")).unwrap_err();
            assert_eq!(errors.code(), Code::InvalidResourceName, "{name}");
        }
        let errors = route("/subscriptions/not-a-guid/resourceGroups").unwrap_err();
        assert_eq!(errors.code(), Code::InvalidSubscriptionId);
        assert_eq!(route(&format!("{JC}/jobs/%ff")).unwrap_err().code(), Code::InvalidRequest);
    }
}

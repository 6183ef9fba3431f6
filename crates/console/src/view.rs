//! The parts that all pages share: header, navigation, time zone, theme, who is signed in.

use kalends_domain::SecretHeaders;
use kalends_recurrence::{Instant, Zone, relative_time};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::address::encode;
use crate::api::{Api, Json as _, read};
use crate::format;
use crate::screen::Screen;

/// A request of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    /// Path, percent-encoded.
    pub path: &'a str,
    /// Parameters of the query, decoded.
    pub parameters: &'a [(String, String)],
    /// Value of the header `Cookie`; empty if there is none.
    pub cookies: &'a str,
    /// Time of the request.
    pub now: Instant,
    /// Version of Kalends.
    pub version: &'a str,
    /// Prefix of the ARM ids in the default resource group.
    pub default_group: &'a str,
    /// Headers whose values pages do not show.
    pub secret_headers: &'a SecretHeaders,
    /// How users sign in.
    pub sign_in: SignInMethod,
    /// Whether a page of another site opened this one: browsers leave the session cookie out.
    pub is_cross_site: bool,
}

/// How users of a server sign in to its console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInMethod {
    /// The server has no authentication.
    None,
    /// With a token.
    Token,
    /// With a token, or at an identity provider.
    TokenOrOidc,
}

impl PageRequest<'_> {
    /// A parameter of the query; empty if absent.
    pub(crate) fn parameter(&self, name: &str) -> String {
        let found = self.parameters.iter().find(|(other, _)| other == name);
        found.map_or(String::new(), |(_, value)| value.clone())
    }

    fn cookie(&self, name: &str) -> Option<String> {
        let pairs = self.cookies.split("; ").filter_map(|pair| pair.split_once('='));
        let value = pairs.into_iter().find(|(other, _)| *other == name)?.1;
        Some(percent_decode_str(value).decode_utf8().ok()?.into_owned())
    }
}

/// The time zone that times are shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneChoice {
    /// That of the browser.
    Browser,
    Utc,
    /// That of the job on the page; that of the browser on pages without one.
    Job,
}

/// Content of the layout.
pub(crate) struct View {
    pub(crate) title: String,
    /// The entry of the navigation.
    pub(crate) section: &'static str,
    /// Relative URL of the root of the console: the server may be behind a path prefix.
    pub(crate) root: String,
    /// URL of the folder of the assets.
    pub(crate) assets: String,
    /// `light` or `dark`; empty: as the browser prefers.
    pub(crate) theme: String,
    pub(crate) now: Instant,
    pub(crate) zone: Zone,
    pub(crate) zone_choice: ZoneChoice,
    /// The zone of the browser, once the browser has told it.
    pub(crate) browser_zone: Option<Zone>,
    /// The zone of the job on the page.
    pub(crate) job_zone: Option<Zone>,
    /// Whether the page is that of a job with a schedule in UTC.
    is_job_in_utc: bool,
    pub(crate) version: String,
    pub(crate) default_group: String,
    pub(crate) secret_headers: SecretHeaders,
    /// `GET /api/me`
    pub(crate) me: Value,
    /// `GET /api/pause`
    pub(crate) pause: Value,
    /// The text in the search field.
    pub(crate) search: String,
}

/// The caller and the pause, as the layout of every page shows them.
#[derive(Default)]
pub(crate) struct Shared {
    me: Value,
    pause: Value,
}

impl Shared {
    pub(crate) async fn load(screen: &Screen, api: &dyn Api) -> Shared {
        if screen.is_public() {
            return Shared::default();
        }
        let me = match screen.collection() {
            Some(collection) => format!("/api/me?scope={}", encode(&collection.in_api())),
            None => "/api/me".to_owned(),
        };
        let (me, pause) = tokio::join!(read(api, &me), read(api, "/api/pause"));
        Shared { me: me.unwrap_or_default(), pause: pause.unwrap_or_default() }
    }
}

impl View {
    /// A view without a caller, until [`View::share`].
    pub(crate) fn new(request: &PageRequest<'_>, screen: &Screen) -> View {
        let root = root(request.path);
        let zone_choice = match request.cookie("kalends-zone").as_deref() {
            Some("utc") => ZoneChoice::Utc,
            Some("job") => ZoneChoice::Job,
            _ => ZoneChoice::Browser,
        };
        let browser_zone = request.cookie("kalends-browser-zone");
        let browser_zone = browser_zone.and_then(|name| Zone::named(&name).ok());
        let mut view = View {
            title: String::new(),
            section: screen.section(),
            assets: format!("{root}{}", crate::asset::folder()),
            root,
            theme: request
                .cookie("kalends-theme")
                .filter(|theme| theme == "dark" || theme == "light")
                .unwrap_or_default(),
            now: request.now,
            zone: Zone::utc(),
            zone_choice,
            browser_zone,
            job_zone: None,
            is_job_in_utc: false,
            version: request.version.to_owned(),
            default_group: request.default_group.to_owned(),
            secret_headers: request.secret_headers.clone(),
            me: Value::default(),
            pause: Value::default(),
            search: String::new(),
        };
        view.choose_zone();
        view
    }

    pub(crate) fn share(&mut self, Shared { me, pause }: Shared) {
        (self.me, self.pause) = (me, pause);
    }

    /// Tells the zone of the job on the page; `None` if that is UTC.
    pub(crate) fn set_job_zone(&mut self, zone: Option<Zone>) {
        self.is_job_in_utc = zone.is_none();
        self.job_zone = zone;
        self.choose_zone();
    }

    fn choose_zone(&mut self) {
        let browser = || self.browser_zone.clone().unwrap_or_else(Zone::utc);
        self.zone = match self.zone_choice {
            ZoneChoice::Utc => Zone::utc(),
            ZoneChoice::Browser => browser(),
            ZoneChoice::Job if self.is_job_in_utc => Zone::utc(),
            ZoneChoice::Job => self.job_zone.clone().unwrap_or_else(browser),
        };
    }

    pub(crate) fn chooses_browser_zone(&self) -> bool {
        !self.chooses_utc() && !self.chooses_job_zone()
    }

    pub(crate) fn chooses_utc(&self) -> bool {
        // The button of the browser's zone stands for UTC if that is the same.
        !self.is_browser_in_utc()
            && match self.zone_choice {
                ZoneChoice::Utc => true,
                ZoneChoice::Browser => false,
                ZoneChoice::Job => self.is_job_in_utc,
            }
    }

    pub(crate) fn chooses_job_zone(&self) -> bool {
        self.zone_choice == ZoneChoice::Job && self.has_job_zone()
    }

    /// Whether the job on the page has another zone than the browser.
    pub(crate) fn has_job_zone(&self) -> bool {
        let name = |zone: &Option<Zone>| zone.as_ref().map(|zone| zone.name().to_owned());
        self.job_zone.is_some() && name(&self.job_zone) != name(&self.browser_zone)
    }

    /// Whether the zone of the browser is UTC, so that there is no other to choose.
    pub(crate) fn is_browser_in_utc(&self) -> bool {
        self.browser_zone.as_ref().is_some_and(|zone| city(zone) == "UTC")
    }

    /// `Berlin`: the last part of the name of the browser's zone.
    pub(crate) fn browser_zone_name(&self) -> String {
        self.browser_zone.as_ref().map_or("Local".to_owned(), city)
    }

    pub(crate) fn job_zone_name(&self) -> String {
        self.job_zone.as_ref().map(city).unwrap_or_default()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.pause.is_true("paused") || self.pause.text("state") == "Paused"
    }

    /// When the pause ends by itself.
    pub(crate) fn pause_until(&self) -> Option<String> {
        self.pause.time("until").map(|until| format::date_time(until, &self.zone))
    }

    /// Whether an occurrence at a time in the future is skipped because of the pause.
    pub(crate) fn is_paused_at(&self, at: Instant) -> bool {
        self.is_paused() && self.pause.time("until").is_none_or(|until| at < until)
    }

    /// Whether the caller has a permission: `writeJobs`, `runJobs` or `pause`. On the page of a collection
    /// or job it counts there, elsewhere it is enough to have it for one collection.
    pub(crate) fn may(&self, permission: &str) -> bool {
        self.me.is_true(&format!("permissions.{permission}"))
    }

    /// Whether the caller can start runs now: the server refuses them during a pause, which every page shows.
    pub(crate) fn may_start_runs(&self) -> bool {
        self.may("runJobs") && !self.is_paused()
    }

    pub(crate) fn is_signed_in(&self) -> bool {
        self.me.text("authentication") == "Session"
    }

    /// The name of whom the server sees as caller.
    pub(crate) fn caller(&self) -> String {
        self.me.text("name")
    }

    pub(crate) fn time(&self, at: Instant) -> Time {
        Time {
            iso: at.to_string(),
            absolute: self.date_time(at),
            relative: relative_time(at, self.now),
            title: self.title_of(at),
        }
    }

    /// The time that has passed since the start of something that goes on.
    pub(crate) fn elapsed(&self, since: Instant) -> Elapsed {
        Elapsed { since: since.to_string(), text: format::elapsed(self.now.since(since)) }
    }

    /// The date and time in the zone of the page.
    pub(crate) fn date_time(&self, at: Instant) -> String {
        format::date_time(at, &self.zone)
    }

    fn title_of(&self, at: Instant) -> String {
        let utc = Zone::utc();
        let own = format!("{} {}", self.date_time(at), city(&self.zone));
        match self.zone.name() == utc.name() {
            true => own,
            false => format!("{own} · {} UTC", format::date_time(at, &utc)),
        }
    }
}

/// Relative URL of the root of the console, in the page at a path.
pub(crate) fn root(path: &str) -> String {
    match path.trim_start_matches('/').matches('/').count() {
        0 => "./".to_owned(),
        depth => "../".repeat(depth),
    }
}

/// A time as pages show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) iso: String,
    pub(crate) absolute: String,
    pub(crate) relative: String,
    pub(crate) title: String,
}

/// A time that goes on, which the browser counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elapsed {
    pub(crate) since: String,
    pub(crate) text: String,
}

/// `Berlin` for `Europe/Berlin`.
fn city(zone: &Zone) -> String {
    let name = zone.name();
    name.rsplit('/').next().unwrap_or(name).replace('_', " ")
}

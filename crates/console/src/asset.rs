//! Style sheet, scripts, icon and prefetch rules, compiled into the binary. Their URLs contain a hash of all of them,
//! so browsers keep them until one changes, and scripts can import each other by name.

use std::sync::LazyLock;

use ring::digest::{Context, SHA256};

/// A file of the console.
#[derive(Debug, PartialEq, Eq)]
pub struct Asset {
    name: &'static str,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Content.
    pub content: &'static [u8],
}

macro_rules! assets {
    ($($name:literal: $content_type:ident,)*) => {
        [$(Asset {
            name: $name,
            content_type: $content_type,
            content: include_bytes!(concat!("../assets/", $name)),
        },)*]
    };
}

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const SPECULATION_RULES: &str = "application/speculationrules+json";

static ASSETS: &[Asset] = &assets! {
    "chart.js": SCRIPT,
    "collection.js": SCRIPT,
    "console.css": CSS,
    "console.js": SCRIPT,
    "copy.js": SCRIPT,
    "cron.js": SCRIPT,
    "definition.js": SCRIPT,
    "dialog.js": SCRIPT,
    "editor.js": SCRIPT,
    "errors.js": SCRIPT,
    "jobs.js": SCRIPT,
    "keyboard.js": SCRIPT,
    "live.js": SCRIPT,
    "preview.js": SCRIPT,
    "request.js": SCRIPT,
    "sign-in.js": SCRIPT,
    "test-run.js": SCRIPT,
    "time.js": SCRIPT,
    "icon.svg": SVG,
    "speculation-rules.json": SPECULATION_RULES,
};

/// Hash of all assets.
static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut context = Context::new(&SHA256);
    for asset in ASSETS {
        context.update(asset.content);
    }
    context.finish().as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
});

/// The asset of a path, given as decoded segments: `assets/{hash}/{name}`.
pub fn asset(segments: &[&str]) -> Option<&'static Asset> {
    match segments {
        ["assets", hash, name] if *hash == *HASH => ASSETS.iter().find(|asset| asset.name == *name),
        _ => None,
    }
}

/// The folder of the assets in URLs, below the root of the console.
pub(crate) fn folder() -> String {
    format!("assets/{}", *HASH)
}

/// Value of the header `Speculation-Rules` of the page at a path: browsers prefetch links that the
/// pointer rests on. A file, because the content security policy forbids rules in the page.
pub fn speculation_rules(path: &str) -> String {
    format!("\"{}{}/speculation-rules.json\"", crate::view::root(path), folder())
}

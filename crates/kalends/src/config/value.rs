//! Values in the settings file, checked by the value parsers of their arguments.

use std::any::TypeId;
use std::error::Error as _;

use anyhow::bail;
use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};
use toml::de::DeValue;

/// Jaro similarity from which a known key is suggested for an unknown one.
const SIMILARITY_MIN: f64 = 0.7;

/// TOML type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Flag,
    Number,
    Text,
}

impl Kind {
    pub(super) fn of(argument: &Arg) -> Kind {
        if !argument.get_action().takes_values() {
            return Kind::Flag;
        }
        let parsed_type = argument.get_value_parser().type_id();
        let numbers = [
            TypeId::of::<u8>(),
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
            TypeId::of::<i32>(),
            TypeId::of::<i64>(),
            TypeId::of::<f64>(),
        ];
        match parsed_type {
            parsed if parsed == TypeId::of::<bool>() => Kind::Flag,
            parsed if numbers.iter().any(|number| parsed == *number) => Kind::Number,
            _ => Kind::Text,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Flag => "true or false",
            Kind::Number => "a number",
            Kind::Text => "a string",
        }
    }
}

/// Whether a setting accepts a list of values.
pub(super) fn is_list(argument: &Arg) -> bool {
    let several = argument.get_num_args().is_some_and(|range| range.max_values() > 1);
    matches!(argument.get_action(), ArgAction::Append)
        || argument.get_value_delimiter().is_some()
        || several
}

/// The values of a key in the form that the argument's parser accepts.
pub(super) fn texts(argument: &Arg, value: &DeValue<'_>) -> anyhow::Result<Vec<String>> {
    match value {
        DeValue::Array(items) if is_list(argument) => {
            items.iter().map(|item| text(argument, item.get_ref())).collect()
        }
        value => Ok(vec![text(argument, value)?]),
    }
}

fn text(argument: &Arg, value: &DeValue<'_>) -> anyhow::Result<String> {
    let kind = Kind::of(argument);
    let text = match (kind, value) {
        (Kind::Flag, DeValue::Boolean(flag)) => flag.to_string(),
        (Kind::Number, DeValue::Integer(number)) => {
            i64::from_str_radix(number.as_str(), number.radix())?.to_string()
        }
        (Kind::Number, DeValue::Float(number)) => number.as_str().to_owned(),
        (Kind::Text, DeValue::String(text)) => text.to_string(),
        (kind, value) => {
            let list = if is_list(argument) { " or an array of them" } else { "" };
            let found = value.type_str();
            let article = if found.starts_with(['a', 'i']) { "an" } else { "a" };
            bail!("must be {}{list} (found {article} {found})", kind.name());
        }
    };
    check(argument, &text)?;
    Ok(text)
}

/// Parses the value as the argument would.
pub(super) fn check(argument: &Arg, text: &str) -> anyhow::Result<()> {
    let parser: ValueParser = argument.get_value_parser().clone();
    let alone = Arg::new("value").long("value").value_parser(parser).action(ArgAction::Set);
    let command = Command::new("check").arg(alone).no_binary_name(true);
    let Err(error) = command.try_get_matches_from([format!("--value={text}")]) else {
        return Ok(());
    };
    match (error.get(ContextKind::ValidValue), error.source()) {
        (Some(ContextValue::Strings(allowed)), _) => {
            bail!("must be one of {}", allowed.join(", "))
        }
        (_, Some(cause)) => bail!("{cause}"),
        _ => bail!("is not valid"),
    }
}

/// The known key most similar to an unknown one, if it is similar enough to be a typing error.
pub(super) fn most_similar<'a>(key: &str, keys: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = key.replace('_', "-").to_ascii_lowercase();
    let rated = keys.map(|known| (strsim::jaro(&plain, known), known));
    let best = rated.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(similarity, _)| *similarity > SIMILARITY_MIN).map(|(_, known)| known)
}

//! What a key of the file may hold, as its argument says.

use std::any::TypeId;
use std::error::Error as _;

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};
use toml::de::DeValue;

/// Names that are as alike as this are taken for slips of the pen.
const ALIKE: f64 = 0.7;

/// What a value is in the file.
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
        let holds = argument.get_value_parser().type_id();
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
        match holds {
            holds if holds == TypeId::of::<bool>() => Kind::Flag,
            holds if numbers.iter().any(|number| holds == *number) => Kind::Number,
            _ => Kind::Text,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Flag => "true or false",
            Kind::Number => "a number",
            Kind::Text => "a text in quotes",
        }
    }
}

/// Whether a setting can have several values.
pub(super) fn is_list(argument: &Arg) -> bool {
    let several = argument.get_num_args().is_some_and(|range| range.max_values() > 1);
    matches!(argument.get_action(), ArgAction::Append)
        || argument.get_value_delimiter().is_some()
        || several
}

/// The values of a key as the argument would be given them.
pub(super) fn values(argument: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::Array(items) if is_list(argument) => {
            items.iter().map(|item| one(argument, item.get_ref())).collect()
        }
        value => Ok(vec![one(argument, value)?]),
    }
}

fn one(argument: &Arg, value: &DeValue<'_>) -> Result<String, String> {
    let kind = Kind::of(argument);
    let text = match (kind, value) {
        (Kind::Flag, DeValue::Boolean(flag)) => flag.to_string(),
        (Kind::Number, DeValue::Integer(number)) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            parsed.map_err(|error| error.to_string())?.to_string()
        }
        (Kind::Number, DeValue::Float(number)) => number.as_str().to_owned(),
        (Kind::Text, DeValue::String(text)) => text.to_string(),
        (kind, value) => {
            let list = if is_list(argument) { ", or a list of such" } else { "" };
            let found = value.type_str();
            return Err(format!("expected {}{list}; this is of type {found}", kind.name()));
        }
    };
    check(argument, &text)?;
    Ok(text)
}

/// Whether the argument takes this value.
pub(super) fn check(argument: &Arg, text: &str) -> Result<(), String> {
    let parser: ValueParser = argument.get_value_parser().clone();
    let alone = Arg::new("value").long("value").value_parser(parser).action(ArgAction::Set);
    let command = Command::new("check").arg(alone).no_binary_name(true);
    let Err(error) = command.try_get_matches_from([format!("--value={text}")]) else {
        return Ok(());
    };
    match (error.get(ContextKind::ValidValue), error.source()) {
        (Some(ContextValue::Strings(allowed)), _) => {
            Err(format!("allowed are {}", allowed.join(", ")))
        }
        (_, Some(cause)) => Err(cause.to_string()),
        _ => Err("it is not allowed".to_owned()),
    }
}

/// What a key that nobody knows was perhaps meant to be.
pub(super) fn nearest<'a>(key: &str, keys: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = key.replace('_', "-").to_ascii_lowercase();
    let alike = keys.map(|known| (strsim::jaro(&plain, known), known));
    let best = alike.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(alike, _)| *alike > ALIKE).map(|(_, known)| known)
}

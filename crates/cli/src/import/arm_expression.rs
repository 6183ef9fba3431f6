//! Expressions of ARM templates: `[concat(parameters('name'), '-jobs')]`.
//!
//! Literals, parameters with a value or a default, variables and some text functions are evaluated. Any
//! other call becomes a reference to an environment variable, which the report names.

use kalends_wire::Json;

use crate::definitions::{Located, escape};

/// Nesting of expressions and of variables that use each other.
const DEPTH_MAX: usize = 32;

/// Parameters and variables of a template.
pub(super) struct Scope<'t> {
    parameters: Option<&'t Located>,
    variables: Option<&'t Located>,
}

/// An environment variable that stands for an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unresolved {
    pub(super) variable: String,
    pub(super) expression: String,
}

impl<'t> Scope<'t> {
    /// The scope of a document; resources outside a template have no expressions.
    pub(super) fn of(document: &'t Located) -> Scope<'t> {
        Scope { parameters: document.get("parameters"), variables: document.get("variables") }
    }

    /// The value with its expressions evaluated. `hint` names variables for those that cannot be.
    pub(super) fn evaluate(
        &self,
        value: &Json<'_>,
        hint: &str,
        unresolved: &mut Vec<Unresolved>,
    ) -> Json<'static> {
        self.evaluate_at(value, hint, 0, unresolved)
    }

    fn evaluate_at(
        &self,
        value: &Json<'_>,
        hint: &str,
        depth: usize,
        unresolved: &mut Vec<Unresolved>,
    ) -> Json<'static> {
        match value {
            Json::String(text) => match expression_of(text) {
                Some(inner) if depth < DEPTH_MAX => {
                    let mut evaluation =
                        Evaluation { scope: self, rest: inner, hint, depth, unresolved };
                    let result = evaluation.expression();
                    match (result, evaluation.rest.trim()) {
                        (Some(value), "") => value,
                        _ => placeholder(hint, text, unresolved),
                    }
                }
                Some(_) => placeholder(hint, text, unresolved),
                None => Json::String(escape(literal(text)).into()),
            },
            Json::Array(entries) => {
                let evaluate = |entry| self.evaluate_at(entry, hint, depth, unresolved);
                Json::Array(entries.iter().map(evaluate).collect())
            }
            Json::Object(members) => {
                let job = hint.split_once('_').map_or(hint, |(job, _)| job);
                let evaluate = |(name, value): &(std::borrow::Cow<'_, str>, Json<'_>)| {
                    let hint = format!("{job}_{name}");
                    let value = self.evaluate_at(value, &hint, depth, unresolved);
                    (std::borrow::Cow::Owned(name.to_string()), value)
                };
                Json::Object(members.iter().map(evaluate).collect())
            }
            other => other.clone().into_owned(),
        }
    }

    fn parameter(&self, name: &str) -> Option<Json<'static>> {
        let parameter = self.parameters?.get(name)?;
        let value = parameter.get("value").or_else(|| parameter.get("defaultValue"))?;
        Some(value.to_json())
    }

    fn variable(&self, name: &str) -> Option<Json<'static>> {
        self.variables?.get(name).map(Located::to_json)
    }
}

/// The text between the brackets of an expression.
fn expression_of(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    (!inner.starts_with('[')).then_some(inner)
}

/// A text that is no expression: two brackets stand for one.
fn literal(text: &str) -> &str {
    if text.starts_with("[[") { text.get(1..).unwrap_or(text) } else { text }
}

/// The reference that stands for an expression.
fn placeholder(hint: &str, expression: &str, unresolved: &mut Vec<Unresolved>) -> Json<'static> {
    let plain =
        |any: char| if any.is_ascii_alphanumeric() { any.to_ascii_uppercase() } else { '_' };
    let variable: String = hint.chars().map(plain).collect();
    let expression = expression.trim().to_owned();
    let found = Unresolved { variable: variable.clone(), expression };
    if !unresolved.contains(&found) {
        unresolved.push(found);
    }
    format!("${{env:{variable}}}").into()
}

struct Evaluation<'e, 't> {
    scope: &'e Scope<'t>,
    rest: &'e str,
    hint: &'e str,
    depth: usize,
    unresolved: &'e mut Vec<Unresolved>,
}

impl Evaluation<'_, '_> {
    fn skip(&mut self, expected: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(expected) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// A literal, or a call with members and indexes. `None` if the syntax is invalid.
    fn expression(&mut self) -> Option<Json<'static>> {
        self.rest = self.rest.trim_start();
        let start = self.rest;
        if self.skip('\'') {
            return self.string();
        }
        if start.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
            let end = start.find(|any: char| !any.is_ascii_digit() && any != '-');
            let (number, rest) = start.split_at(end.unwrap_or(start.len()));
            self.rest = rest;
            return number.parse::<i64>().ok().map(Json::from);
        }
        let end = start.find(|any: char| !any.is_ascii_alphanumeric() && any != '.')?;
        let (function, rest) = start.split_at(end);
        self.rest = rest;
        if !self.skip('(') {
            return None;
        }
        let found = self.unresolved.len();
        let mut arguments = Vec::new();
        while !self.skip(')') {
            arguments.push(self.expression()?);
            if !self.skip(',') && !self.rest.trim_start().starts_with(')') {
                return None;
            }
        }
        let mut value = self.call(function, &arguments);
        value = self.members(value)?;
        let length = start.len() - self.rest.len();
        let text = start.get(..length).unwrap_or(start);
        Some(match value {
            Some(value) => value,
            None => {
                // The call as a whole gets a variable, not its arguments.
                self.unresolved.truncate(found);
                match (function, arguments.first()) {
                    ("parameters", Some(Json::String(name))) => {
                        placeholder(name, text, self.unresolved)
                    }
                    _ => placeholder(self.hint, text, self.unresolved),
                }
            }
        })
    }

    /// Members and indexes after a call. `None` if the syntax is invalid.
    fn members(&mut self, mut value: Option<Json<'static>>) -> Option<Option<Json<'static>>> {
        loop {
            if self.rest.starts_with('.') {
                self.rest = self.rest.get(1..)?;
                let end = self.rest.find(|any: char| !any.is_ascii_alphanumeric() && any != '_');
                let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                self.rest = rest;
                value = match value {
                    Some(Json::Object(members)) => {
                        let found =
                            members.into_iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
                        found.map(|(_, value)| value)
                    }
                    _ => None,
                };
            } else if self.rest.starts_with('[') {
                self.rest = self.rest.get(1..)?;
                let index = self.expression()?;
                if !self.skip(']') {
                    return None;
                }
                value = match (value, index) {
                    (
                        Some(Json::Array(entries)),
                        Json::Number(kalends_wire::Number::Integer(index)),
                    ) => {
                        usize::try_from(index).ok().and_then(|index| entries.into_iter().nth(index))
                    }
                    _ => None,
                };
            } else {
                return Some(value);
            }
        }
    }

    /// The rest of a text in quotes; two quotes stand for one.
    fn string(&mut self) -> Option<Json<'static>> {
        let mut text = String::new();
        loop {
            let end = self.rest.find('\'')?;
            let (part, rest) = self.rest.split_at(end);
            text.push_str(part);
            self.rest = rest.get(1..)?;
            match self.rest.strip_prefix('\'') {
                Some(rest) => {
                    text.push('\'');
                    self.rest = rest;
                }
                None => return Some(escape(&text).into()),
            }
        }
    }

    /// The value of a call; `None` if it depends on more than the template.
    fn call(&mut self, function: &str, arguments: &[Json<'static>]) -> Option<Json<'static>> {
        let texts: Option<Vec<_>> = arguments.iter().map(text_of).collect();
        match (function.to_ascii_lowercase().as_str(), arguments) {
            ("parameters", [Json::String(name)]) => {
                let value = self.scope.parameter(name)?;
                Some(self.scope.evaluate_at(&value, self.hint, self.depth + 1, self.unresolved))
            }
            ("variables", [Json::String(name)]) => {
                let value = self.scope.variable(name)?;
                Some(self.scope.evaluate_at(&value, self.hint, self.depth + 1, self.unresolved))
            }
            ("concat", _) => Some(texts?.concat().into()),
            ("string", [_]) => texts?.into_iter().next().map(Json::from),
            ("tolower", [Json::String(text)]) => Some(text.to_lowercase().into()),
            ("toupper", [Json::String(text)]) => Some(text.to_uppercase().into()),
            ("trim", [Json::String(text)]) => Some(text.trim().to_owned().into()),
            _ => None,
        }
    }
}

fn text_of(value: &Json<'static>) -> Option<String> {
    match value {
        Json::String(text) => Some(text.to_string()),
        Json::Number(_) | Json::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::{Member, Value};

    fn template() -> Located {
        let text = |text: &str| Located { line: 1, value: Value::String(text.to_owned()) };
        let object = |members: Vec<(&str, Located)>| {
            let member =
                |(name, value): (&str, Located)| Member { name: name.to_owned(), line: 1, value };
            Located { line: 1, value: Value::Object(members.into_iter().map(member).collect()) }
        };
        object(vec![
            (
                "parameters",
                object(vec![
                    ("prefix", object(vec![("defaultValue", text("web"))])),
                    ("password", object(vec![("type", text("secureString"))])),
                ]),
            ),
            (
                "variables",
                object(vec![
                    ("name", text("[concat(parameters('prefix'), '-jobs')]")),
                    ("loop", text("[variables('loop')]")),
                    ("parts", Located { line: 1, value: Value::List(vec![text("a"), text("b")]) }),
                ]),
            ),
        ])
    }

    #[test]
    fn parameters_variables_and_texts_are_evaluated() {
        let template = template();
        let scope = Scope::of(&template);
        for (text, expected) in [
            ("plain", "plain"),
            ("[[literal]", "[literal]"),
            ("[parameters('prefix')]", "web"),
            ("[variables('name')]", "web-jobs"),
            ("[toUpper(concat('it''s ', variables('name'), 5))]", "IT'S WEB-JOBS5"),
            ("[variables('parts')[1]]", "b"),
            ("body with ${env:X}", "body with $${env:X}"),
        ] {
            let mut unresolved = Vec::new();
            let value = scope.evaluate(&Json::from(text), "job_uri", &mut unresolved);
            assert_eq!(value, Json::from(expected), "{text}");
            assert_eq!(unresolved, [], "{text}");
        }
    }

    #[test]
    fn other_expressions_become_environment_variables() {
        let template = template();
        let scope = Scope::of(&template);
        for (text, expected, variable) in [
            ("[parameters('password')]", "${env:PASSWORD}", "PASSWORD"),
            (
                "[concat('http://', reference(resourceId('a', 'b'), '2016-08-01').hostNames[0], '/x')]",
                "http://${env:JOB_URI}/x",
                "JOB_URI",
            ),
            ("[listKeys(variables('name'), '2017-04-01').primaryKey]", "${env:JOB_URI}", "JOB_URI"),
            ("[variables('loop')]", "${env:JOB_URI}", "JOB_URI"),
            ("[concat('a'", "[concat('a'", ""),
            ("[concat('a']", "${env:JOB_URI}", "JOB_URI"),
        ] {
            let mut unresolved = Vec::new();
            let value = scope.evaluate(&Json::from(text), "job_uri", &mut unresolved);
            assert_eq!(value, Json::from(expected), "{text}");
            let found = unresolved.first().map_or("", |found| found.variable.as_str());
            assert_eq!(found, variable, "{text}");
        }
    }
}

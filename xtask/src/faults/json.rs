//! Documents that nodes answer with. Only reading: the harness writes none.

use std::ops::Index;

/// A value of a document. What is not there is `Null`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

static NULL: Value = Value::Null;

impl Value {
    /// Reads a document; `Null` if it is none.
    pub(super) fn parse(text: &str) -> Value {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0);
        reader.skip();
        value.filter(|_| reader.at == text.len()).unwrap_or_default()
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn as_f64(&self) -> Option<f64> {
        if let Value::Number(number) = self { Some(*number) } else { None }
    }

    pub(super) fn list(&self) -> &[Value] {
        if let Value::List(list) = self { list } else { &[] }
    }
}

impl Index<&str> for Value {
    type Output = Value;

    fn index(&self, name: &str) -> &Value {
        let Value::Object(members) = self else { return &NULL };
        members.iter().find(|(known, _)| known == name).map_or(&NULL, |(_, value)| value)
    }
}

impl Index<usize> for Value {
    type Output = Value;

    fn index(&self, at: usize) -> &Value {
        self.list().get(at).unwrap_or(&NULL)
    }
}

impl PartialEq<str> for Value {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == Some(text)
    }
}

impl PartialEq<bool> for Value {
    fn eq(&self, other: &bool) -> bool {
        *self == Value::Bool(*other)
    }
}

/// Values inside values that are read.
const DEPTH_MAX: usize = 32;

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes this text if it comes next.
    fn take(&mut self, text: &str) -> bool {
        self.skip();
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        for (word, value) in
            [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))]
        {
            if self.take(word) {
                return Some(value);
            }
        }
        if self.take("[") {
            return self.members("]", |reader| reader.value(depth + 1)).map(Value::List);
        }
        if self.take("{") {
            let member = |reader: &mut Self| {
                let name = if reader.take("\"") { reader.string()? } else { return None };
                reader.take(":").then(|| reader.value(depth + 1)).flatten().map(|value| (name, value))
            };
            return self.members("}", member).map(Value::Object);
        }
        if self.take("\"") {
            return self.string().map(Value::Text);
        }
        let is_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        let end = self.rest().find(|c| !is_number(c)).unwrap_or(self.rest().len());
        let number = self.rest()[..end].parse().ok()?;
        self.at += end;
        Some(Value::Number(number))
    }

    fn members<T>(&mut self, end: &str, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut members = Vec::new();
        if self.take(end) {
            return Some(members);
        }
        loop {
            members.push(one(self)?);
            if self.take(end) {
                return Some(members);
            }
            if !self.take(",") {
                return None;
            }
        }
    }

    /// Reads text up to its closing mark.
    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        loop {
            let c = self.rest().chars().next()?;
            self.at += c.len_utf8();
            match c {
                '"' => return Some(text),
                '\\' => {
                    let escape = self.rest().chars().next()?;
                    self.at += escape.len_utf8();
                    text.push(match escape {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'b' => '\u{8}',
                        'f' => '\u{c}',
                        'u' => {
                            let code = u32::from_str_radix(self.rest().get(..4)?, 16).ok()?;
                            self.at += 4;
                            // Halves of pairs do not occur in ids, names and codes.
                            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
                        }
                        other => other,
                    });
                }
                c => text.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read() {
        let text = r#" {"id": "a\u0062\"c", "share": 1.5e-1, "up": true, "none": null, "list": [1, "two", []], "o": {}} "#;
        let value = Value::parse(text);
        assert_eq!(value["id"].as_str(), Some("ab\"c"));
        assert_eq!(value["share"].as_f64(), Some(0.15));
        assert!(value["up"] == true && value["list"][1] == *"two" && value["list"].list().len() == 3);
        assert_eq!((&value["none"], &value["absent"]["deeper"], &value["list"][9]), (&NULL, &NULL, &NULL));
    }

    #[test]
    fn what_is_no_document_is_nothing() {
        let deep = "[".repeat(100);
        for text in ["", "{", "[1,]", "{\"a\" 1}", "\"open", "1 2", "{a: 1}", "nul", &deep, "\"\\u12\""] {
            assert_eq!(Value::parse(text), Value::Null, "{text}");
        }
    }
}

//! Files of token ids.

use serde_json::Value;

/// Why a text holds no token ids.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokensError {
    #[error("no token ids: it is neither JSON nor whole numbers separated by blanks or commas")]
    Neither,
    #[error("no token ids: the JSON is neither an array nor an object with `token_ids` or `prompt_ids`")]
    NoArray,
    #[error("token {at} (counted from 0) is no whole number of 32 bits: {what}")]
    NotAnId { at: usize, what: String },
    #[error("there are no tokens in it")]
    Empty,
}

/// Token ids from a JSON array, from a JSON object's `token_ids` or `prompt_ids`, or from plain numbers.
pub(crate) fn parse(text: &str) -> Result<Vec<u32>, TokensError> {
    let ids = if text.trim_start().starts_with(['[', '{']) { parse_json(text) } else { parse_plain(text) }?;
    if ids.is_empty() { Err(TokensError::Empty) } else { Ok(ids) }
}

fn parse_json(text: &str) -> Result<Vec<u32>, TokensError> {
    let json: Value = serde_json::from_str(text).map_err(|_| TokensError::Neither)?;
    let list = match &json {
        Value::Object(object) => object.get("token_ids").or_else(|| object.get("prompt_ids")),
        Value::Array(_) => Some(&json),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    let list = list.and_then(Value::as_array).ok_or(TokensError::NoArray)?;
    let id = |(at, value): (usize, &Value)| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| TokensError::NotAnId { at, what: value.to_string() })
    };
    list.iter().enumerate().map(id).collect()
}

fn parse_plain(text: &str) -> Result<Vec<u32>, TokensError> {
    let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    let id = |(at, word): (usize, &str)| match word.parse() {
        Ok(id) => Ok(id),
        // The first word already is something else: the whole file is.
        Err(_) if at == 0 && !word.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
            Err(TokensError::Neither)
        }
        Err(_) => Err(TokensError::NotAnId { at, what: word.chars().take(20).collect() }),
    };
    words.enumerate().map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse(text).expect_err("refused").to_string()
    }

    #[test]
    fn the_forms_that_are_read() {
        assert_eq!(parse("[1, 9690]\n").expect("an array"), [1, 9690]);
        assert_eq!(parse(r#"{"prompt_ids": [3, 4], "text": "x"}"#).expect("an object"), [3, 4]);
        assert_eq!(parse(r#"{"token_ids": [5]}"#).expect("an object"), [5]);
        assert_eq!(parse(" 7 8,9\n10\t").expect("numbers"), [7, 8, 9, 10]);
    }

    #[test]
    fn others_are_refused_with_the_reason() {
        assert!(refusal("Water boils").contains("neither JSON nor whole numbers"));
        assert!(refusal("[1, 2").contains("neither JSON"));
        assert!(refusal(r#"{"ids": [1]}"#).contains("`token_ids` or `prompt_ids`"));
        assert!(refusal("[1, -2]").contains("token 1 (counted from 0)"));
        assert!(refusal("[4294967296]").contains("token 0"));
        assert!(refusal("1 2 x").contains("token 2 (counted from 0) is no whole number of 32 bits: x"));
        assert!(refusal("[]").contains("no tokens"));
        assert!(refusal(" ").contains("no tokens"));
    }
}

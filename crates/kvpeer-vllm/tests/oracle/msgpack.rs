//! Recorded messages as the payloads that carried them, legal or not.

use rmp::encode;
use serde_json::Value;

/// Byte strings are `{"$b": hex}`.
pub(crate) fn pack(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => encode::write_nil(out).unwrap(),
        Value::Bool(value) => encode::write_bool(out, *value).unwrap(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => drop(encode::write_uint(out, value).unwrap()),
            (None, Some(value)) => drop(encode::write_sint(out, value).unwrap()),
            (None, None) => encode::write_f64(out, number.as_f64().unwrap()).unwrap(),
        },
        Value::String(text) => encode::write_str(out, text).unwrap(),
        Value::Array(values) => {
            encode::write_array_len(out, values.len() as u32).unwrap();
            values.iter().for_each(|value| write(value, out));
        }
        Value::Object(fields) => match (fields.len(), fields.get("$b")) {
            (1, Some(hex)) => encode::write_bin(out, &bytes(hex)).unwrap(),
            (count, _) => {
                encode::write_map_len(out, count as u32).unwrap();
                for (name, value) in fields {
                    encode::write_str(out, name).unwrap();
                    write(value, out);
                }
            }
        },
    }
}

fn bytes(hex: &Value) -> Vec<u8> {
    let digits: Vec<char> = hex.as_str().unwrap().chars().collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// The bytes of a recorded byte string.
pub(crate) fn unpack_bytes(value: &Value) -> Vec<u8> {
    bytes(&value["$b"])
}

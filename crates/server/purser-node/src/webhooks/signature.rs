//! How events are signed: the Standard Webhooks specification, 1.0.0, symmetric.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The header `webhook-signature`: one signature for each key, newest first.
///
/// What is signed is `id.seconds.body`. It has one reading: an id of ours contains slashes and ends with
/// `/0`, the time consists of digits, and the body begins with a brace.
pub(super) fn signatures(keys: &[Vec<u8>], (id, seconds): (&str, u64), body: &[u8]) -> String {
    let sign = |key: &Vec<u8>| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()))
    };
    keys.iter().map(sign).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own libraries.
    #[test]
    fn a_signature_is_the_one_of_the_specification() {
        let key = BASE64.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let message = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330);
        let body = br#"{"test": 2432232314}"#;
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signatures(std::slice::from_ref(&key), message, body), signature);
        let both = signatures(&[vec![1; 24], key], message, body);
        assert!(both.starts_with("v1,") && both.ends_with(&format!(" {signature}")), "{both}");
    }
}

//! Certificate signing requests: PKCS#10 (RFC 2986) as X.509 SVIDs want it, with an empty subject and a critical SAN of
//! one URI and perhaps DNS names, <https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md>.

use crate::der::{BIT_STRING, INTEGER, OCTET_STRING, SEQUENCE, SET, element};

/// 1.2.840.113549.1.9.14 (RFC 2985, section 5.4.2), with tag and length.
const EXTENSION_REQUEST: &[u8] = &[
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e,
];
/// 2.5.29.17 (RFC 5280, section 4.2.1.6), with tag and length.
const SUBJECT_ALT_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x11];
const CRITICAL: &[u8] = &[0x01, 0x01, 0xff];
/// `uniformResourceIdentifier [6] IA5String` of GeneralName.
const URI: u8 = 0x86;
/// `dNSName [2] IA5String`.
const DNS: u8 = 0x82;
/// `attributes [0]` of CertificationRequestInfo.
const ATTRIBUTES: u8 = 0xa0;

/// The part that the key's owner signs: the CertificationRequestInfo for these names (ASCII) and a SubjectPublicKeyInfo.
pub fn request_info(identity: &str, dns_names: &[String], public_key_der: &[u8]) -> Vec<u8> {
    let mut names = element(URI, &[identity.as_bytes()]);
    for name in dns_names {
        names.extend(element(DNS, &[name.as_bytes()]));
    }
    let names = element(SEQUENCE, &[&names]);
    let san = element(
        SEQUENCE,
        &[
            SUBJECT_ALT_NAME,
            CRITICAL,
            &element(OCTET_STRING, &[&names]),
        ],
    );
    let extensions = element(SET, &[&element(SEQUENCE, &[&san])]);
    let attribute = element(SEQUENCE, &[EXTENSION_REQUEST, &extensions]);
    let version = element(INTEGER, &[&[0]]);
    let empty_subject = element(SEQUENCE, &[]);
    element(
        SEQUENCE,
        &[
            &version,
            &empty_subject,
            public_key_der,
            &element(ATTRIBUTES, &[&attribute]),
        ],
    )
}

/// The whole request; `algorithm` is a DER AlgorithmIdentifier.
pub fn signed_request(request_info: &[u8], algorithm: &[u8], signature: &[u8]) -> Vec<u8> {
    let no_unused_bits = &[0];
    element(
        SEQUENCE,
        &[
            request_info,
            algorithm,
            &element(BIT_STRING, &[no_unused_bits, signature]),
        ],
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, RSA_PKCS1_2048_8192_SHA256,
        UnparsedPublicKey, VerificationAlgorithm,
    };
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::cri_attributes::ParsedCriAttribute;
    use x509_parser::extensions::{GeneralName, ParsedExtension};
    use x509_parser::prelude::FromDer;

    use crate::key::{KeyRequest, generate};
    use crate::rsa::Method;

    const IDENTITY: &str = "spiffe://cluster.local/ns/default/sa/web";

    fn request_of(name: &str, identity: &str) -> (Vec<u8>, Vec<u8>) {
        request_with(name, identity, &[])
    }

    fn request_with(name: &str, identity: &str, dns_names: &[String]) -> (Vec<u8>, Vec<u8>) {
        let request = KeyRequest::parse(
            name,
            Method::Search,
            identity.into(),
            dns_names.into(),
            "pkcs8",
        )
        .expect("a valid request");
        let key = generate(&request, &AtomicBool::new(false)).expect("a key");
        (key.csr_der, key.public_key_der)
    }

    #[test]
    fn every_algorithm_signs_its_request() {
        let cases: [(&str, &str, &dyn VerificationAlgorithm); 3] = [
            ("ecdsa-p256", "1.2.840.10045.4.3.2", &ECDSA_P256_SHA256_ASN1),
            ("ecdsa-p384", "1.2.840.10045.4.3.3", &ECDSA_P384_SHA384_ASN1),
            (
                "rsa-2048",
                "1.2.840.113549.1.1.11",
                &RSA_PKCS1_2048_8192_SHA256,
            ),
        ];
        for (name, oid, algorithm) in cases {
            let (der, public_key_der) = request_of(name, IDENTITY);
            let (rest, csr) = X509CertificationRequest::from_der(&der).expect("a CSR");
            assert!(rest.is_empty());
            assert_eq!(csr.signature_algorithm.algorithm.to_id_string(), oid);
            let info = &csr.certification_request_info;
            assert_eq!(info.subject_pki.raw, public_key_der);
            let public_key: &[u8] = &info.subject_pki.subject_public_key.data;
            UnparsedPublicKey::new(algorithm, public_key)
                .verify(info.raw, &csr.signature_value.data)
                .expect("a signature that verifies");
        }
    }

    #[test]
    fn a_request_asks_for_one_critical_uri_and_its_dns_names_and_no_subject() {
        let dns = ["a.example".to_string(), "*.b.example".to_string()];
        for (identity, dns) in [
            (IDENTITY.to_string(), &dns[..]),
            (format!("spiffe://a/{}", "b".repeat(2036)), &[]),
        ] {
            let (der, _) = request_with("ecdsa-p256", &identity, dns);
            let (_, csr) = X509CertificationRequest::from_der(&der).expect("a CSR");
            let info = &csr.certification_request_info;
            assert_eq!(info.version.0, 0);
            assert_eq!(info.subject.iter().count(), 0);
            let [attribute] = info.attributes() else {
                panic!("{} attributes", info.attributes().len());
            };
            let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute()
            else {
                panic!("not an extension request");
            };
            let [extension] = requested.extensions.as_slice() else {
                panic!("{} extensions", requested.extensions.len());
            };
            assert!(extension.critical);
            let ParsedExtension::SubjectAlternativeName(san) = extension.parsed_extension() else {
                panic!("not a SAN");
            };
            let mut names = vec![GeneralName::URI(&identity)];
            names.extend(dns.iter().map(|name| GeneralName::DNSName(name)));
            assert_eq!(san.general_names, names);
        }
    }
}

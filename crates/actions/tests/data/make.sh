#!/bin/sh
# Recreates all files of this directory; README.md describes them. The keys are new each time, so
# update the facts in ../it/pfx_files.rs with the output.
# Needs openssl 3 with its legacy provider, keytool of a JDK, and a UTF-8 locale.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

subject='/C=US/ST=Some-State/O=Terraform Tests/OU=Azure/CN=Terraform App Gateway'

# certificate NAME SUBJECT DAYS: a self-signed certificate with its own key.
certificate() {
    openssl req -x509 -newkey rsa:2048 -nodes -utf8 -subj "$2" -days "$3" \
        -keyout "$work/$1.key" -out "$work/$1.crt" 2>/dev/null
}

# pfx NAME KEY-AND-CERTIFICATE PASSWORD OPTIONS...
pfx() {
    name=$1 from=$2 password=$3
    shift 3
    openssl pkcs12 -export -out "$name.pfx" -inkey "$work/$from.key" -in "$work/$from.crt" \
        -passout "pass:$password" "$@"
}

# issue NAME ISSUER CA-OR-NOT: a certificate issued by another one.
issue() {
    openssl req -newkey rsa:2048 -nodes -subj "/O=Kalends Tests/CN=$1" -keyout "$work/$1.key" \
        -out "$work/$1.csr" 2>/dev/null
    printf 'basicConstraints=CA:%s\n' "$3" >"$work/$1.ext"
    openssl x509 -req -in "$work/$1.csr" -CA "$work/$2.crt" -CAkey "$work/$2.key" \
        -CAcreateserial -days 3650 -extfile "$work/$1.ext" -out "$work/$1.crt" 2>/dev/null
}

certificate plain "$subject" 3650
pfx aes256-single plain secret
pfx triple-des plain secret -legacy -keypbe PBE-SHA1-3DES -certpbe PBE-SHA1-3DES -macalg sha1
pfx rc2-40-legacy plain secret -legacy
pfx rc2-128 plain secret -legacy -keypbe PBE-SHA1-3DES -certpbe PBE-SHA1-RC2-128 -macalg sha1
pfx aes128-sha512 plain secret -keypbe AES-128-CBC -certpbe AES-192-CBC -macalg sha512
pfx pbes2-triple-des plain secret -keypbe DES-EDE3-CBC -certpbe DES-EDE3-CBC -macalg sha384
pfx empty-password plain ''
pfx no-mac plain secret -nomac
pfx unencrypted plain secret -keypbe NONE -certpbe NONE
pfx unencrypted-no-mac plain secret -keypbe NONE -certpbe NONE -nomac
pfx non-ascii-password plain 'pässwörd→😀'
pfx non-ascii-legacy plain 'pässwörd→😀' -legacy
pfx many-iterations plain secret -iter 200000
pfx too-many-iterations plain secret -iter 200001
pfx no-key plain secret -nokeys

# openssl writes a single key; keytool merges two files.
certificate second '/CN=second' 3650
rm -f "$work/two.p12"
for one in plain second; do
    openssl pkcs12 -export -out "$work/$one.p12" -inkey "$work/$one.key" -in "$work/$one.crt" \
        -name "$one" -passout pass:secret
    keytool -importkeystore -noprompt -srckeystore "$work/$one.p12" -srcstorepass secret \
        -destkeystore "$work/two.p12" -deststoretype PKCS12 -deststorepass secret 2>/dev/null
done
cp "$work/two.p12" two-keys.pfx

openssl pkcs12 -export -nocerts -out no-certificate.pfx -inkey "$work/plain.key" \
    -passout pass:secret

issue_chain() {
    certificate root '/O=Kalends Tests/CN=root' 3650
    previous=root
    for name in "$@"; do
        issue "$name" "$previous" TRUE
        previous=$name
    done
    issue leaf "$previous" FALSE
}

issue_chain middle
cat "$work/root.crt" "$work/middle.crt" >"$work/above.crt"
pfx aes256-chain leaf secret -certfile "$work/above.crt"
issue_chain upper middle lower
cat "$work/lower.crt" "$work/root.crt" "$work/upper.crt" "$work/middle.crt" >"$work/above.crt"
pfx chain-of-5 leaf secret -certfile "$work/above.crt"
cat "$work/second.crt" >>"$work/above.crt"
pfx chain-of-6 leaf secret -certfile "$work/above.crt"

# Only the ca command accepts dates in the past.
openssl req -newkey rsa:2048 -nodes -subj /CN=expired -keyout "$work/expired.key" \
    -out "$work/expired.csr" 2>/dev/null
mkdir "$work/ca"
: >"$work/ca/index"
echo 01 >"$work/ca/serial"
cat >"$work/ca/config" <<EOF
[ca]
default_ca = only
[only]
database = $work/ca/index
serial = $work/ca/serial
new_certs_dir = $work/ca
policy = any
default_md = sha256
[any]
commonName = supplied
EOF
openssl ca -batch -selfsign -config "$work/ca/config" -keyfile "$work/expired.key" \
    -in "$work/expired.csr" -startdate 20100101000000Z -enddate 20150630235959Z -notext \
    -out "$work/expired.crt" 2>/dev/null
pfx expired expired secret

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=P-256' -days 3650 \
    -keyout "$work/p256.key" -out "$work/p256.crt" 2>/dev/null
pfx ec-p256 p256 secret
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -subj '/CN=P-384' -days 3650 \
    -keyout "$work/p384.key" -out "$work/p384.crt" 2>/dev/null
pfx ec-p384 p384 secret
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-521 -nodes -subj '/CN=P-521' -days 3650 \
    -keyout "$work/p521.key" -out "$work/p521.crt" 2>/dev/null
pfx ec-p521 p521 secret
openssl req -x509 -newkey ed25519 -nodes -subj '/CN=Ed25519' -days 3650 \
    -keyout "$work/ed25519.key" -out "$work/ed25519.crt" 2>/dev/null
pfx ed25519 ed25519 secret
openssl req -x509 -newkey rsa:1024 -nodes -subj '/CN=RSA 1024' -days 3650 \
    -keyout "$work/rsa1024.key" -out "$work/rsa1024.crt" 2>/dev/null
pfx rsa-1024 rsa1024 secret

rm -f keytool-rsa.pfx keytool-ec.pfx
keytool -genkeypair -keystore keytool-rsa.pfx -storetype PKCS12 -storepass secret -alias a \
    -keyalg RSA -keysize 2048 -validity 3650 -dname 'CN=Java, OU=Tests, C=DE' 2>/dev/null
keytool -genkeypair -keystore keytool-ec.pfx -storetype PKCS12 -storepass secret -alias a \
    -keyalg EC -groupname secp256r1 -validity 3650 -dname 'CN=Java EC' 2>/dev/null

certificate odd '/DC=org/DC=example/street=1 High St; "Rear"/O=Muster \& Söhne, GmbH/OU= blanks /serialNumber=7/description=no \#1/title=a\=b/GN=Ann/SN=O'\''Neil/emailAddress=ann@example.org/UID=ann/CN=a \+ b <c>' 3650
pfx odd-subject odd secret
certificate multi '/C=DE/O=Kalends+OU=Tests/CN=Ann+serialNumber=7' 3650
pfx multi-valued multi secret

# Separate keys, encrypted in ways that openssl pkcs12 does not offer.
for function in SHA1 SHA384 SHA512; do
    openssl pkcs8 -topk8 -in "$work/plain.key" -v2 aes-256-cbc -v2prf "hmacWith$function" \
        -passout pass:secret -outform DER -out "key-hmac-$(echo $function | tr A-Z a-z).der"
done
openssl pkcs8 -topk8 -in "$work/plain.key" -scrypt -passout pass:secret -outform DER \
    -out key-scrypt.der
openssl pkcs8 -topk8 -in "$work/plain.key" -v1 PBE-SHA1-RC4-128 -passout pass:secret \
    -provider legacy -provider default -outform DER -out key-rc4.der
openssl x509 -in "$work/plain.crt" -outform DER -out plain.der
openssl x509 -in "$work/second.crt" -outform DER -out second.der

chmod 644 ./*.pfx ./*.der
for file in *.pfx; do
    password=secret
    case $file in
    empty-password.pfx) password= ;;
    non-ascii-*) password='pässwörd→😀' ;;
    esac
    echo "== $file $(wc -c <"$file")"
    openssl pkcs12 -in "$file" -passin "pass:$password" -legacy -nodes -clcerts -nokeys 2>/dev/null |
        openssl x509 -noout -fingerprint -sha1 -enddate -subject -nameopt RFC2253,utf8,-esc_msb 2>/dev/null || true
    openssl pkcs12 -in "$file" -passin "pass:$password" -legacy -nodes -nocerts 2>/dev/null |
        openssl pkcs8 -topk8 -nocrypt -outform DER 2>/dev/null | sha256sum || true
done

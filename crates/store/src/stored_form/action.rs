//! The stored form of actions.

use kalends_domain::{
    Action, BrokeredProperties, CertificateFacts, Headers, HttpAuthentication, HttpRequest,
    MessageFormat, Method, Secret, ServiceBusAuthentication, ServiceBusAuthenticationKind,
    ServiceBusMessage, StorageQueueMessage, Target, TimeToLive, Transport, Uri,
};
use kalends_recurrence::Instant;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::record::JobUid;
use crate::stored_form::DefinitionCodec;
use crate::stored_form::recurrence::{DurationForm, instant};
use crate::stored_form::text::Text;

/// The scope of an action's secrets: its job and the path of the action in the job, to which each
/// ciphertext is bound.
#[derive(Clone, Copy)]
pub(crate) struct SecretScope<'a> {
    pub(crate) codec: &'a DefinitionCodec,
    pub(crate) uid: JobUid,
    pub(crate) prefix: &'static str,
}

impl SecretScope<'_> {
    fn path(&self, member: &str) -> String {
        format!("{}.{member}", self.prefix)
    }

    fn encrypt(&self, member: &str, secret: &Option<Secret>) -> Result<Option<Text>, StoreError> {
        let encrypt =
            |secret: &Secret| self.codec.encrypt(self.uid, &self.path(member), secret.reveal());
        secret.as_ref().map(encrypt).transpose()
    }

    /// A text that may be encrypted; `member` is computed only then.
    fn read(&self, text: Text, member: impl FnOnce() -> String) -> Result<String, StoreError> {
        match text {
            Text::Plain(text) => Ok(text),
            Text::Encrypted { .. } => self.codec.decrypt(self.uid, &member(), text),
        }
    }

    fn decrypt(&self, member: &str, text: Option<Text>) -> Result<Option<Secret>, StoreError> {
        text.map(|text| self.codec.decrypt_secret(self.uid, &self.path(member), text)).transpose()
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ActionForm {
    /// The type as the author spelled it, such as `https` or `Https`.
    r#type: String,
    target: TargetForm,
}

#[derive(Serialize, Deserialize)]
enum TargetForm {
    Http(HttpForm),
    StorageQueue(StorageQueueForm),
    ServiceBusQueue(ServiceBusForm),
    ServiceBusTopic(ServiceBusForm),
}

#[derive(Serialize, Deserialize)]
struct HttpForm {
    uri: Text,
    method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Vec<(String, Text)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<Box<AuthenticationForm>>,
}

#[derive(Serialize, Deserialize)]
enum AuthenticationForm {
    Basic {
        username: Option<String>,
        password: Option<Text>,
    },
    ClientCertificate {
        pfx: Option<Text>,
        password: Option<Text>,
        /// Thumbprint, expiration in ticks, subject name.
        certificate: Option<(String, i64, String)>,
    },
    ActiveDirectoryOAuth {
        tenant: Option<String>,
        audience: Option<String>,
        client_id: Option<String>,
        secret: Option<Text>,
    },
}

#[derive(Serialize, Deserialize)]
struct StorageQueueForm {
    account: Option<String>,
    queue: Option<String>,
    sas_token: Option<Text>,
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<bool>,
}

#[derive(Serialize, Deserialize)]
struct ServiceBusForm {
    entity: Option<String>,
    namespace: Option<String>,
    transport: Option<TransportForm>,
    authentication: Option<ServiceBusAuthenticationForm>,
    message: Option<String>,
    brokered: Option<Box<BrokeredForm>>,
    custom: Option<Vec<(String, String)>>,
}

#[derive(Serialize, Deserialize)]
enum TransportForm {
    NotSpecified,
    NetMessaging,
    Amqp,
}

#[derive(Serialize, Deserialize)]
struct ServiceBusAuthenticationForm {
    /// Whether the kind is `SharedAccessKey`; absent if the author omitted it.
    shared_access_key: Option<bool>,
    sas_key_name: Option<String>,
    sas_key: Option<Text>,
}

#[derive(Serialize, Deserialize)]
struct BrokeredForm {
    content_type: Option<String>,
    correlation_id: Option<String>,
    force_persistence: Option<bool>,
    label: Option<String>,
    message_id: Option<String>,
    partition_key: Option<String>,
    reply_to: Option<String>,
    reply_to_session_id: Option<String>,
    scheduled_enqueue_time_utc: Option<i64>,
    session_id: Option<String>,
    live_for: Option<DurationForm>,
    live_until: Option<i64>,
    to: Option<String>,
    via_partition_key: Option<String>,
}

impl ActionForm {
    pub(crate) fn write(action: &Action, scope: SecretScope<'_>) -> Result<ActionForm, StoreError> {
        let target = match &action.target {
            Target::Http(request) => TargetForm::Http(write_http(request, scope)?),
            Target::StorageQueue(message) => TargetForm::StorageQueue(StorageQueueForm {
                account: message.storage_account.clone(),
                queue: message.queue_name.clone(),
                sas_token: scope.encrypt("queueMessage.sasToken", &message.sas_token)?,
                message: message.message.clone(),
                raw: match message.format {
                    MessageFormat::Unset => None,
                    MessageFormat::Envelope => Some(false),
                    MessageFormat::Raw => Some(true),
                },
            }),
            Target::ServiceBusQueue(message) => {
                TargetForm::ServiceBusQueue(write_service_bus(message, scope)?)
            }
            Target::ServiceBusTopic(message) => {
                TargetForm::ServiceBusTopic(write_service_bus(message, scope)?)
            }
        };
        Ok(ActionForm { r#type: action.type_as_written.clone(), target })
    }

    pub(crate) fn read(self, scope: SecretScope<'_>) -> Result<Action, StoreError> {
        let target = match self.target {
            TargetForm::Http(form) => Target::Http(read_http(form, scope)?),
            TargetForm::StorageQueue(form) => Target::StorageQueue(StorageQueueMessage {
                storage_account: form.account,
                queue_name: form.queue,
                sas_token: scope.decrypt("queueMessage.sasToken", form.sas_token)?,
                message: form.message,
                format: match form.raw {
                    None => MessageFormat::Unset,
                    Some(false) => MessageFormat::Envelope,
                    Some(true) => MessageFormat::Raw,
                },
            }),
            TargetForm::ServiceBusQueue(form) => {
                Target::ServiceBusQueue(read_service_bus(form, scope)?)
            }
            TargetForm::ServiceBusTopic(form) => {
                Target::ServiceBusTopic(read_service_bus(form, scope)?)
            }
        };
        Ok(Action { type_as_written: self.r#type, target })
    }
}

fn write_http(request: &HttpRequest, scope: SecretScope<'_>) -> Result<HttpForm, StoreError> {
    let header = |(name, value): (&str, &str)| {
        let text =
            scope.codec.write_header(scope.uid, &scope.path("request.headers"), name, value)?;
        Ok((name.to_owned(), text))
    };
    let headers = |headers: &Headers| headers.iter().map(header).collect::<Result<_, StoreError>>();
    let member = |name: &str| format!("request.authentication.{name}");
    let authentication = match request.authentication.as_deref() {
        None => None,
        Some(HttpAuthentication::Basic { username, password }) => Some(AuthenticationForm::Basic {
            username: username.clone(),
            password: scope.encrypt(&member("password"), password)?,
        }),
        Some(HttpAuthentication::ClientCertificate { pfx, password, certificate }) => {
            let facts = |facts: &CertificateFacts| {
                (facts.thumbprint.clone(), facts.expiration.ticks(), facts.subject_name.clone())
            };
            Some(AuthenticationForm::ClientCertificate {
                pfx: scope.encrypt(&member("pfx"), pfx)?,
                password: scope.encrypt(&member("password"), password)?,
                certificate: certificate.as_ref().map(facts),
            })
        }
        Some(HttpAuthentication::ActiveDirectoryOAuth { tenant, audience, client_id, secret }) => {
            Some(AuthenticationForm::ActiveDirectoryOAuth {
                tenant: tenant.clone(),
                audience: audience.clone(),
                client_id: client_id.clone(),
                secret: scope.encrypt(&member("secret"), secret)?,
            })
        }
    };
    let uri = scope.codec.write_uri(scope.uid, &scope.path("request.uri"), request.uri.as_str())?;
    Ok(HttpForm {
        uri,
        method: request.method.as_str().to_owned(),
        headers: request.headers.as_ref().map(headers).transpose()?,
        body: request.body.clone(),
        authentication: authentication.map(Box::new),
    })
}

fn read_http(form: HttpForm, scope: SecretScope<'_>) -> Result<HttpRequest, StoreError> {
    let header = |(name, text): (String, Text)| {
        let member = || format!("{}.{}", scope.path("request.headers"), name.to_ascii_lowercase());
        let value = scope.read(text, member)?;
        Ok((name, value))
    };
    let headers = |list: Vec<(String, Text)>| list.into_iter().map(header).collect();
    let headers: Option<Result<_, StoreError>> = form.headers.map(headers);
    let member = |name: &str| format!("request.authentication.{name}");
    let authentication = match form.authentication.map(|form| *form) {
        None => None,
        Some(AuthenticationForm::Basic { username, password }) => Some(HttpAuthentication::Basic {
            username,
            password: scope.decrypt(&member("password"), password)?,
        }),
        Some(AuthenticationForm::ClientCertificate { pfx, password, certificate }) => {
            let facts = |(thumbprint, expiration, subject_name)| {
                Ok::<_, StoreError>(CertificateFacts {
                    thumbprint,
                    expiration: instant(expiration)?,
                    subject_name,
                })
            };
            Some(HttpAuthentication::ClientCertificate {
                pfx: scope.decrypt(&member("pfx"), pfx)?,
                password: scope.decrypt(&member("password"), password)?,
                certificate: certificate.map(facts).transpose()?,
            })
        }
        Some(AuthenticationForm::ActiveDirectoryOAuth { tenant, audience, client_id, secret }) => {
            Some(HttpAuthentication::ActiveDirectoryOAuth {
                tenant,
                audience,
                client_id,
                secret: scope.decrypt(&member("secret"), secret)?,
            })
        }
    };
    Ok(HttpRequest {
        uri: Uri::restore(scope.read(form.uri, || scope.path("request.uri"))?),
        method: Method::restore(form.method),
        headers: headers.transpose()?.map(Headers::restore),
        body: form.body,
        authentication: authentication.map(Box::new),
    })
}

const SAS_KEY: &str = "serviceBusMessage.authentication.sasKey";

fn write_service_bus(
    message: &ServiceBusMessage,
    scope: SecretScope<'_>,
) -> Result<ServiceBusForm, StoreError> {
    let authentication = |authentication: &ServiceBusAuthentication| {
        Ok::<_, StoreError>(ServiceBusAuthenticationForm {
            shared_access_key: authentication
                .kind
                .map(|kind| kind == ServiceBusAuthenticationKind::SharedAccessKey),
            sas_key_name: authentication.sas_key_name.clone(),
            sas_key: scope.encrypt(SAS_KEY, &authentication.sas_key)?,
        })
    };
    Ok(ServiceBusForm {
        entity: message.entity.clone(),
        namespace: message.namespace.clone(),
        transport: message.transport.map(|transport| match transport {
            Transport::NotSpecified => TransportForm::NotSpecified,
            Transport::NetMessaging => TransportForm::NetMessaging,
            Transport::Amqp => TransportForm::Amqp,
        }),
        authentication: message.authentication.as_ref().map(authentication).transpose()?,
        message: message.message.clone(),
        brokered: message.brokered.as_deref().map(|brokered| Box::new(write_brokered(brokered))),
        custom: message.custom.clone(),
    })
}

fn read_service_bus(
    form: ServiceBusForm,
    scope: SecretScope<'_>,
) -> Result<ServiceBusMessage, StoreError> {
    let authentication = |form: ServiceBusAuthenticationForm| {
        Ok::<_, StoreError>(ServiceBusAuthentication {
            kind: form.shared_access_key.map(|shared| match shared {
                true => ServiceBusAuthenticationKind::SharedAccessKey,
                false => ServiceBusAuthenticationKind::NotSpecified,
            }),
            sas_key_name: form.sas_key_name,
            sas_key: scope.decrypt(SAS_KEY, form.sas_key)?,
        })
    };
    Ok(ServiceBusMessage {
        entity: form.entity,
        namespace: form.namespace,
        transport: form.transport.map(|transport| match transport {
            TransportForm::NotSpecified => Transport::NotSpecified,
            TransportForm::NetMessaging => Transport::NetMessaging,
            TransportForm::Amqp => Transport::Amqp,
        }),
        authentication: form.authentication.map(authentication).transpose()?,
        message: form.message,
        brokered: form.brokered.map(|form| read_brokered(*form).map(Box::new)).transpose()?,
        custom: form.custom,
    })
}

fn write_brokered(properties: &BrokeredProperties) -> BrokeredForm {
    let (live_for, live_until) = match &properties.time_to_live {
        None => (None, None),
        Some(TimeToLive::For(duration)) => (Some(DurationForm::from(duration)), None),
        Some(TimeToLive::Until(until)) => (None, Some(until.ticks())),
    };
    BrokeredForm {
        content_type: properties.content_type.clone(),
        correlation_id: properties.correlation_id.clone(),
        force_persistence: properties.force_persistence,
        label: properties.label.clone(),
        message_id: properties.message_id.clone(),
        partition_key: properties.partition_key.clone(),
        reply_to: properties.reply_to.clone(),
        reply_to_session_id: properties.reply_to_session_id.clone(),
        scheduled_enqueue_time_utc: properties.scheduled_enqueue_time_utc.map(Instant::ticks),
        session_id: properties.session_id.clone(),
        live_for,
        live_until,
        to: properties.to.clone(),
        via_partition_key: properties.via_partition_key.clone(),
    }
}

fn read_brokered(form: BrokeredForm) -> Result<BrokeredProperties, StoreError> {
    let live_until = form.live_until.map(instant).transpose()?.map(TimeToLive::Until);
    Ok(BrokeredProperties {
        content_type: form.content_type,
        correlation_id: form.correlation_id,
        force_persistence: form.force_persistence,
        label: form.label,
        message_id: form.message_id,
        partition_key: form.partition_key,
        reply_to: form.reply_to,
        reply_to_session_id: form.reply_to_session_id,
        scheduled_enqueue_time_utc: form.scheduled_enqueue_time_utc.map(instant).transpose()?,
        session_id: form.session_id,
        time_to_live: form.live_for.map(|form| TimeToLive::For(form.into())).or(live_until),
        to: form.to,
        via_partition_key: form.via_partition_key,
    })
}

//! Reading and serialising messages for storage queues.

use kalends_domain::{MessageFormat, StorageQueueMessage, check_queue_name, check_storage_account};

use crate::enum_text::{EnumText, OldCasing, enum_text};
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::{Context, Node};
use crate::object::ObjectBuilder;
use crate::write_options::WriteOptions;

const FORMATS: &EnumText<MessageFormat> =
    &[("Envelope", MessageFormat::Envelope), ("Raw", MessageFormat::Raw)];

pub(super) fn read(
    node: Node<'_>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<StorageQueueMessage> {
    node.require(&["storageAccount", "queueName", "message"], context, errors);
    let storage_account = node.member("storageAccount").and_then(|node| {
        node.with_code(ErrorCode::InvalidStorageAccount).checked(check_storage_account, errors)
    });
    let queue_name = node.member("queueName").and_then(|node| {
        node.with_code(ErrorCode::InvalidQueueName).checked(check_queue_name, errors)
    });
    let sas_token = node.required_secret("sasToken", context, errors);
    let message_max = context.limits.queue_message_chars_max;
    let message = node.member("message").and_then(|node| {
        node.with_code(ErrorCode::InvalidStorageMessage).text_within(message_max, errors)
    });
    let format = node
        .member("messageFormat")
        .filter(|_| !context.version.is_old())
        .and_then(|node| node.enum_value(FORMATS.iter().copied(), errors));
    let format = format.unwrap_or_default();
    Some(StorageQueueMessage { storage_account, queue_name, sas_token, message, format })
}

pub(super) fn write(message: &StorageQueueMessage, options: WriteOptions) -> Json<'_> {
    let format = Some(message.format)
        .filter(|format| !options.version.is_old() && *format != MessageFormat::Unset);
    ObjectBuilder::new()
        .put_some("storageAccount", message.storage_account.as_deref())
        .put_some("queueName", message.queue_name.as_deref())
        .put_some("sasToken", options.secret(&message.sas_token))
        .put_some("message", message.message.as_deref())
        .put_some(
            "messageFormat",
            format.map(|format| enum_text(FORMATS, &format, OldCasing::Pascal, options.version)),
        )
        .into()
}

//! Job collections.

use axum::http::{Method, StatusCode};
use kalends_domain::{Collection, CollectionPath, CollectionState};
use kalends_store::record::CollectionRecord;
use kalends_store::{CollectionContext, CollectionWrite, Page, Refusal, RefusalKind, Scope};
use kalends_wire::{
    Error, Json, Version, keep_plan, patch_collection, read_collection, write_collection,
    write_list,
};

use super::{Asked, Done, done, not_allowed, nothing_there};
use crate::answer::{Answer, Refused};
use crate::app::App;
use crate::edit::{Mistakes, decide_collection};
use crate::request::read_json;

/// As many collections are listed at once; a subscription has 200,000 at most.
const PAGE_MAX: usize = 200_000;

pub(super) async fn list(asked: Asked, scope: Scope) -> Done {
    let version = asked.query.version()?;
    if asked.method != Method::GET {
        return not_allowed("GET");
    }
    let records = asked.app.store.collections(scope, Page::first(PAGE_MAX)).await?;
    let one = |record: &CollectionRecord| {
        write_collection(&record.path, &record.collection, version).into_owned()
    };
    let values = records.iter().map(one).collect();
    Ok(Answer::json(StatusCode::OK, &write_list(values, None)))
}

pub(super) async fn one(asked: Asked, path: CollectionPath) -> Done {
    let version = asked.query.version()?;
    match asked.method {
        Method::GET => match asked.app.store.collection(path.clone()).await? {
            Some(record) => Ok(answer(StatusCode::OK, &record, version)),
            None => Err(Error::collection_not_found(&path).into()),
        },
        Method::PUT => put(asked, path, version).await,
        Method::PATCH => patch(asked, path, version).await,
        Method::DELETE => {
            let delete = |context: CollectionContext<'_>| match context.existing {
                Some(_) => Ok(CollectionWrite::Delete),
                None => Err(absent()),
            };
            edit(&asked.app, path, Box::new(delete), &Mistakes::default()).await?;
            done()
        }
        _ => not_allowed("GET, PUT, PATCH, DELETE"),
    }
}

/// `POST …/enable` and `…/disable`.
pub(super) async fn switch(asked: Asked, path: CollectionPath, on: bool) -> Done {
    asked.query.version()?;
    if asked.method != Method::POST {
        return not_allowed("POST");
    }
    let state = if on { CollectionState::Enabled } else { CollectionState::Disabled };
    let switch = move |context: CollectionContext<'_>| {
        let existing = context.existing.ok_or_else(absent)?;
        let collection = Collection { state, ..existing.collection.clone() };
        match collection == existing.collection {
            true => Ok(CollectionWrite::Keep),
            false => Ok(CollectionWrite::Put(collection)),
        }
    };
    edit(&asked.app, path, Box::new(switch), &Mistakes::default()).await?;
    done()
}

/// The retired service answered every PUT of a collection with 201.
async fn put(mut asked: Asked, path: CollectionPath, version: Version) -> Done {
    let body = read_json(&asked.headers, std::mem::take(&mut asked.body)).await?;
    let settings = asked.app.settings.clone();
    let collection = read_collection(&body, version, &settings.limits)?;
    let put = move |context: CollectionContext<'_>| {
        let mut collection = collection.clone();
        if let Some(existing) = context.existing {
            keep_plan(&existing.collection, &mut collection, version);
        }
        decide_collection(collection, &settings, &context)
    };
    let record = edit(&asked.app, path, Box::new(put), &Mistakes::default()).await?;
    Ok(answer(StatusCode::CREATED, &record.ok_or_else(nothing_there)?, version))
}

async fn patch(mut asked: Asked, path: CollectionPath, version: Version) -> Done {
    let body = read_json(&asked.headers, std::mem::take(&mut asked.body)).await?;
    let settings = asked.app.settings.clone();
    let mistakes = Mistakes::default();
    let found = mistakes.clone();
    let patch = move |context: CollectionContext<'_>| {
        let existing = context.existing.ok_or_else(absent)?;
        let stored = &existing.collection;
        let patched =
            patch_collection(&existing.path, stored, body.clone(), version, &settings.limits);
        decide_collection(patched.map_err(|errors| found.keep(errors))?, &settings, &context)
    };
    let record = edit(&asked.app, path, Box::new(patch), &mistakes).await?;
    Ok(answer(StatusCode::OK, &record.ok_or_else(nothing_there)?, version))
}

async fn edit(
    app: &App,
    path: CollectionPath,
    decide: kalends_store::DecideCollection,
    mistakes: &Mistakes,
) -> Result<Option<CollectionRecord>, Refused> {
    match app.store.edit_collection(path.clone(), decide).await {
        Ok(edited) => {
            (app.changed)();
            Ok(edited.after)
        }
        Err(kalends_store::StoreError::Refused(refusal))
            if refusal.kind == RefusalKind::NotFound =>
        {
            Err(Error::collection_not_found(&path).into())
        }
        Err(error) => Err(mistakes.take().map_or_else(|| error.into(), Refused::from)),
    }
}

fn absent() -> Refusal {
    Refusal { kind: RefusalKind::NotFound, path: None, message: String::new() }
}

fn answer(status: StatusCode, record: &CollectionRecord, version: Version) -> Answer {
    let body: Json<'_> = write_collection(&record.path, &record.collection, version);
    Answer::json(status, &body).with_etag(record.version, version)
}

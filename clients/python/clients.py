"""One interface to every published Python client: synchronous and asynchronous, track 1 and track 2."""

import inspect
import time

SUBSCRIPTION = "6c55a6f0-6593-472f-9b3e-a51a9a757b40"


class Track1:
    """1.0.0 and 2.0.0: credentials and models of msrest, pollers with .result()."""

    def __init__(self, url):
        from azure.mgmt.scheduler import SchedulerManagementClient
        from msrest.authentication import BasicTokenAuthentication

        token = BasicTokenAuthentication({"access_token": "not checked"})
        self._client = SchedulerManagementClient(token, SUBSCRIPTION, base_url=url)

    async def call(self, group, method, *arguments, **named):
        operation = getattr(getattr(self._client, group), method)
        if "properties" in inspect.signature(operation).parameters:
            # 2.0.0 wraps the properties of a job itself.
            arguments = arguments[:-1] + (arguments[-1].properties,)
        return operation(*arguments, **named)

    async def list(self, group, method, *arguments, **named):
        return list(await self.call(group, method, *arguments, **named))

    async def poll(self, group, method, *arguments):
        return (await self.call(group, method, *arguments)).result()

    async def refusal(self, group, method, *arguments):
        """Status and code of an error."""
        from msrestazure.azure_exceptions import CloudError

        try:
            await self.call(group, method, *arguments)
        except CloudError as error:
            # Old and new msrestazure store the code in different attributes.
            details = getattr(error.error, "error", None)
            code = getattr(details, "code", None) or getattr(error.error, "error", None)
            return error.status_code, code, str(error)
        return None, None, ""

    async def close(self):
        pass


class Credential:
    def get_token(self, *scopes, **named):
        from azure.core.credentials import AccessToken

        return AccessToken("not checked", int(time.time()) + 3600)


class Track2:
    """7.0.0: azure-core. Every call must allow plain http."""

    http = {"enforce_https": False}

    def __init__(self, url):
        from azure.mgmt.scheduler import SchedulerManagementClient

        self._client = SchedulerManagementClient(Credential(), SUBSCRIPTION, base_url=url)

    async def call(self, group, method, *arguments, **named):
        return getattr(getattr(self._client, group), method)(*arguments, **named, **self.http)

    async def list(self, group, method, *arguments, **named):
        return list(await self.call(group, method, *arguments, **named))

    async def poll(self, group, method, *arguments):
        return (await self.call(group, "begin_" + method, *arguments)).result()

    async def refusal(self, group, method, *arguments):
        from azure.core.exceptions import HttpResponseError

        try:
            await self.call(group, method, *arguments)
        except HttpResponseError as error:
            return error.status_code, error.error.code, str(error)
        return None, None, ""

    async def close(self):
        self._client.close()


class AsyncCredential(Credential):
    async def get_token(self, *scopes, **named):
        return Credential.get_token(self)

    async def close(self):
        pass


class Track2Async(Track2):
    """7.0.0 with asyncio."""

    def __init__(self, url):
        from azure.mgmt.scheduler.aio import SchedulerManagementClient

        self._client = SchedulerManagementClient(AsyncCredential(), SUBSCRIPTION, base_url=url)

    async def call(self, group, method, *arguments, **named):
        return await getattr(getattr(self._client, group), method)(*arguments, **named, **self.http)

    async def list(self, group, method, *arguments, **named):
        pages = getattr(getattr(self._client, group), method)(*arguments, **named, **self.http)
        return [entry async for entry in pages]

    async def poll(self, group, method, *arguments):
        return await (await self.call(group, "begin_" + method, *arguments)).result()

    async def close(self):
        await self._client.close()


KINDS = {"track1": Track1, "track2": Track2, "track2-async": Track2Async}
